"""The figures that README.md and docs/ quote, from the results that they come from.

    python benchmarks/figures.py
    python benchmarks/figures.py draws results/runs/base

The first rewrites every block between `<!-- figures: NAME -->` and `<!-- end of figures -->`, from
docs/learning/*.json: copies of evaluation.json of the default's runs with the seeds 0, 1 and 2
(default, default-1, default-2), of presets/embedded-long.yaml (long) and of presets/modern.yaml
(modern). The second scores a run's model with other draws of the evaluation's masks, on the shards
at hand, and writes docs/learning/draws.json.
"""

import json
import re
import statistics
import sys
from pathlib import Path

BASE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BASE / "scripts"))

RESULTS = BASE / "docs" / "learning"
PAGES = ("README.md", "docs/learning.md", "docs/evaluation.md")
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->)(\n?).*?(<!-- end of figures -->)", re.DOTALL)
SEEDS = ("default", "default-1", "default-2")
#: Values of evaluation.seed that `draws` tries.
DRAWS = range(10)
NAMES = {
    "unigram": "unigram",
    "bigram_hidden": "two-sided bigram that sees what the model sees",
    "bigram": "two-sided bigram that sees every neighbour",
    "trigram_hidden": "two-sided trigram that sees what the model sees",
    "trigram": "two-sided trigram that sees every neighbour",
}


def result(name: str) -> dict:
    """docs/learning/<name>.json."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def nats(number: float) -> str:
    """A number with three decimals and a true minus."""
    return f"{number:.3f}".replace("-", "−")


def interval(ends: list[float]) -> str:
    return f"{nats(ends[0])} to {nats(ends[1])}"


def comparison(name: str, baselines: list[str]) -> str:
    """A table of the model's loss and the baselines', where the answer is hidden."""
    found = result(name)
    hidden = found["test"]["hidden"]
    rows = [
        "| where the answer is hidden | loss (nats) | the model's loss minus this |",
        "|---|---|---|",
        f"| the model | {nats(hidden['loss'])} ({interval(hidden['loss_interval'])}) | |",
    ]
    for key in baselines:
        baseline = found["baselines"][key]
        rows.append(
            f"| {NAMES[key]} | {nats(baseline['hidden']['loss'])} | "
            f"{nats(baseline['difference'])} ({interval(baseline['difference_interval'])}) |"
        )
    return "\n".join(rows)


def visible(found: dict) -> str:
    """The share of the predictions whose target stays visible."""
    test = found["test"]
    return f"{100 * (1 - test['hidden']['num_predictions'] / test['num_predictions']):.0f} %"


def expectation() -> str:
    found = result("default")
    hidden, baselines = found["test"]["hidden"], found["baselines"]
    bigram, trigram = (-baselines[f"{n}_hidden"]["difference"] for n in ("bigram", "trigram"))
    return (
        f"Its test loss (seed 0) is {hidden['loss']:.2f} nats where the target is hidden\n(95 % "
        f"interval {hidden['loss_interval'][0]:.2f} to {hidden['loss_interval'][1]:.2f}, from only "
        f"{found['test']['num_groups']} groups and therefore optimistic), {bigram:.2f} less than a "
        f"two-sided bigram\nthat sees the same input, and {trigram:.2f} less than such a trigram."
    )


def seeds() -> str:
    hidden = [result(name)["test"]["hidden"]["loss"] for name in SEEDS]
    everywhere = [result(name)["test"]["loss"] for name in SEEDS]
    return (
        f"Three seeds end at test losses of {nats(hidden[0])}, {nats(hidden[1])} and "
        f"{nats(hidden[2])} where the answer is hidden,\nand of {nats(everywhere[0])}, "
        f"{nats(everywhere[1])} and {nats(everywhere[2])} over all predictions, "
        f"{visible(result('default'))} of which show the answer. Seed 0:\n\n"
        + comparison("default", list(NAMES))
    )


def gap() -> str:
    found = result("default")
    return (
        f"On as many samples of train, its loss over all predictions is "
        f"{nats(found['train']['loss'])}: the gap is {nats(found['gap']['difference'])} nats\n"
        f"({interval(found['gap']['difference_interval'])})."
    )


def seconds(name: str) -> str:
    """How the loss of another preset's run compares with the default's, seed 0."""
    found, default = result(name)["test"], result("default")["test"]
    return (
        f"Seed 0 ends at a test loss of **{nats(found['hidden']['loss'])}** "
        f"({interval(found['hidden']['loss_interval'])}) where the answer is hidden,\n"
        f"and of {nats(found['loss'])} over all predictions; the default has "
        f"{nats(default['hidden']['loss'])} and {nats(default['loss'])}."
    )


def draws() -> str:
    found = result("draws")

    def spread(key: str) -> str:
        values = [row[key] for row in found]
        deviation = nats(statistics.stdev(values))
        return f"from {nats(min(values))} to {nats(max(values))} (standard deviation {deviation})"

    return (
        f"With {len(found)} values of `evaluation.seed`, the default's test loss varies\n"
        f"{spread('hidden')} where the answer is hidden\n({nats(found[0]['hidden'])} with the "
        f"default's seed 0), and {spread('loss')}\nover all predictions."
    )


BLOCKS = {
    "expectation": expectation,
    "seeds": seeds,
    "gap": gap,
    "long": lambda: seconds("long") + "\n\n" + comparison("long", ["bigram", "trigram"]),
    "modern": lambda: seconds("modern"),
    "draws": draws,
}


def written(text: str) -> str:
    """`text` with every marked block made anew; one that begins on its own line ends on one."""

    def block(found: re.Match) -> str:
        begin, name, line, end = found.groups()
        return f"{begin}{line}{BLOCKS[name]()}{line}{end}"

    return BLOCK.sub(block, text)


def measure_draws(run: Path) -> None:
    """Score the model of `run` with each seed of DRAWS, and write draws.json."""
    import numpy as np

    from mlm.config.accelerator import Accelerator
    from mlm.config.evaluation import Evaluation
    from mlm.evaluation.exported_model import load_tokenizer
    from mlm.evaluation.in_tensorflow import open_model
    from mlm.evaluation.scoring import Scorer
    from mlm.samples.manifests import Manifest
    from mlm.samples.split_samples import spread_samples

    manifest = Manifest.read(run.parents[1] / "manifests" / "test.json")
    samples = spread_samples(manifest, run.parents[2])
    tokenizer, section = load_tokenizer(run / "model"), Evaluation()
    devices = Accelerator(kind="cpu", precision="float32")
    model = open_model(run / "model", devices, seed=0)
    rows = []
    for seed in DRAWS:
        asked = section.model_copy(update={"seed": seed})
        scored = Scorer(model, asked, tokenizer, manifest.sequence_length).score(samples)
        hidden = scored.positions.answer_hidden(tokenizer.mask_token_id)
        losses = {
            "loss": float(np.mean(scored.scores.loss)),
            "hidden": float(np.mean(scored.scores.loss[hidden])),
        }
        rows.append({"seed": seed} | {key: round(loss, 6) for key, loss in losses.items()})
        print(rows[-1], flush=True)
    (RESULTS / "draws.json").write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    if sys.argv[1:2] == ["draws"]:
        measure_draws(Path(sys.argv[2]).resolve())
    for page in PAGES:
        path = BASE / page
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
