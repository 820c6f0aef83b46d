"""The figures that README.md and docs/ quote, from the results that they come from.

    python benchmarks/figures.py
    python benchmarks/figures.py draws results/runs/base
    python benchmarks/figures.py adapting OLD NEW

The first rewrites every block between `<!-- figures: NAME -->` and `<!-- end of figures -->`, from
docs/learning/*.json: copies of evaluation.json of the default's runs with the seeds 0, 1 and 2
(default, default-1, default-2), of presets/embedded-long.yaml (long) and of presets/modern.yaml
(modern), and trainer.json and tuned-SEED.json, which trainer.py leaves. The second scores a run's
model with other draws of the evaluation's masks, on the shards at hand, and writes
docs/learning/draws.json. The third writes docs/learning/adapting.json from two working directories,
with MiniLM's vocabulary and with a new one, whose runs are `scratch`, `adapted`, `scratch-hour` and
`adapted-hour` (docs/adapting.md).
"""

import json
import math
import re
import statistics
import sys
from pathlib import Path

BASE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BASE / "scripts"))

RESULTS = BASE / "docs" / "learning"
PAGES = (
    "README.md",
    "docs/learning.md",
    "docs/evaluation.md",
    "docs/comparison.md",
    "docs/adapting.md",
)
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->)(\n?).*?(<!-- end of figures -->)", re.DOTALL)
SEEDS = ("default", "default-1", "default-2")
#: Vocabularies and budgets of docs/adapting.md: the ends of the names of runs.
VOCABULARIES = ("MiniLM's", "new")
BUDGETS = ("", "-hour")
#: Values of evaluation.seed that `draws` tries.
DRAWS = range(10)
NAMES = {
    "unigram": "unigram",
    "bigram": "two-sided bigram with the same view",
    "trigram": "two-sided trigram with the same view",
}


#: How the model stands to a baseline in accuracy.
_IN_ACCURACY = {
    "better": "the model is ahead of that trigram",
    "worse": "the model is behind that trigram",
    "even": "the model and that trigram cannot be told apart",
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
    """A table of the model's figures and the baselines', where the answer is hidden."""
    found = result(name)
    hidden = found["test"]["hidden"]
    rows = [
        "| where the answer is hidden | loss (nats) | the model's loss minus this | accuracy |",
        "|---|---|---|---|",
        f"| the model | {nats(hidden['loss'])} ({interval(hidden['loss_interval'])}) | | "
        f"{100 * hidden['accuracy']:.1f} % |",
    ]
    for key in baselines:
        baseline = found["baselines"][key]
        rows.append(
            f"| {NAMES[key]} | {nats(baseline['hidden']['loss'])} | "
            f"{nats(baseline['difference'])} ({interval(baseline['difference_interval'])}) | "
            f"{100 * baseline['hidden']['accuracy']:.1f} % |"
        )
    return "\n".join(rows)


def visible(found: dict) -> str:
    """The share of the predictions whose target stays visible."""
    test = found["test"]
    return f"{100 * (1 - test['hidden']['num_predictions'] / test['num_predictions']):.0f} %"


def expectation() -> str:
    found = result("default")
    hidden, baselines = found["test"]["hidden"], found["baselines"]
    bigram, trigram = (-baselines[n]["difference"] for n in ("bigram", "trigram"))
    low, high = baselines["trigram"]["accuracy_difference_interval"]
    tone = "better" if low > 0 else "worse" if high < 0 else "even"
    accuracy = hidden["accuracy"], baselines["trigram"]["hidden"]["accuracy"]
    draws = [row["hidden"] for row in result("draws")]
    low, high = hidden["loss_interval"]
    return (
        f"Its test loss (seed 0) is {hidden['loss']:.2f} nats where the answer is hidden (95 % "
        f"interval\n{low:.2f} to {high:.2f}, too narrow because the test text has only "
        f"{found['test']['num_groups']} groups; {min(draws):.2f} to {max(draws):.2f} over "
        f"{len(draws)} draws of the masks). That is {bigram:.2f} below\na two-sided bigram and "
        f"{trigram:.2f} below a two-sided trigram with the same view. In accuracy, "
        f"{_IN_ACCURACY[tone]}\n({100 * accuracy[0]:.1f} % and {100 * accuracy[1]:.1f} %)."
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
    loss, difference = found["train"]["hidden"]["loss"], found["gap"]["difference"]
    return (
        f"On as many train samples as test samples, its loss where the answer is hidden is "
        f"{nats(loss)}:\nthe gap is {nats(difference)} nats "
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

    mean = nats(statistics.mean(row["hidden"] for row in found))
    return (
        f"With {len(found)} values of `evaluation.seed`, the default's test loss varies\n"
        f"{spread('hidden')} where the answer is hidden\n({nats(found[0]['hidden'])} with the "
        f"default's seed 0, mean {mean}), and {spread('loss')}\nover all predictions."
    )


def trainer() -> str:
    found = result("trainer")
    here, there = found["workflow"], found["trainer"]
    return (
        f"On {found['threads']} threads, the default trains for {here['seconds']:.0f} seconds and "
        f"reaches a test loss of **{here['hidden']:.2f}** nats where the answer is hidden.\n"
        "transformers' Trainer with common settings and the same corpus, tokenizer and model size "
        f"is at {there['hidden']:.2f} after {there['seconds']:.0f} seconds"
    )


def same_time() -> str:
    found = result("trainer")
    rows = [
        "| | seconds | processor seconds | loss where the answer is hidden | all predictions |",
        "|---|---|---|---|---|",
    ]
    names = {"workflow": "this workflow's default", "trainer": "Trainer, RoBERTa"}
    for key, name in names.items():
        row = found[key]
        rows.append(
            f"| {name} | {row['seconds']:.0f} | {row['processor_seconds']:.0f} | "
            f"{nats(row['hidden'])} | {nats(row['loss'])} |"
        )
    return "\n".join(rows)


def tuned() -> str:
    rows = [
        "| seed | processor seconds | this workflow's default | ModernBERT, tuned by hand | "
        "the default minus this |",
        "|---|---|---|---|---|",
    ]
    for seed in range(3):
        found = result(f"tuned-{seed}")
        here, there = found["workflow"], found["tuned"]
        rows.append(
            f"| {seed} | {here['processor_seconds']:.0f} and {there['processor_seconds']:.0f} | "
            f"{nats(here['hidden'])} | {nats(there['hidden'])} | "
            f"{nats(found['difference'])} ({interval(found['difference_interval'])}) |"
        )
    return "\n".join(rows)


def tuned_differences() -> str:
    found = [-result(f"tuned-{seed}")["difference"] for seed in range(3)]
    return f"{min(found):.2f} to {max(found):.2f} nats behind the default"


def adapting() -> str:
    """A table of scratch and adapted, by vocabulary and budget."""
    rows = [
        "| vocabulary | processor seconds | steps | scratch | adapted | adapted − scratch |",
        "|---|---|---|---|---|---|",
    ]
    for row in result("adapting"):
        both = [row[name] for name in ("scratch", "adapted")]
        cells = [
            row["vocabulary"],
            " and ".join(f"{one['processor_seconds']:,.0f}" for one in both),
            " and ".join(f"{one['steps']:,}" for one in both),
            *(f"{nats(one['bits'])} ({interval(one['interval'])})" for one in both),
            f"{nats(row['difference'])} ({interval(row['difference_interval'])})",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


BLOCKS = {
    "adapting": adapting,
    "trainer": trainer,
    "tuned": tuned,
    "tuned-differences": tuned_differences,
    "same-time": same_time,
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
        hidden = scored.where_hidden(tokenizer.mask_token_id)
        losses = {
            "loss": float(np.mean(scored.scores.loss)),
            "hidden": float(np.mean(hidden.scores.loss)),
        }
        rows.append({"seed": seed} | {key: round(loss, 6) for key, loss in losses.items()})
        print(rows[-1], flush=True)
    (RESULTS / "draws.json").write_text(json.dumps(rows, indent=1) + "\n")


def gather_adapting(directories: list[Path]) -> None:
    """Write adapting.json from the evaluations and the measured times of the directories' runs."""
    import numpy as np

    from mlm.evaluation.bootstrap import resampled_means

    def drawn(found: dict, above: str, below: str) -> np.ndarray:
        sums, how = found["group_sums"], found["settings"]["bootstrap"]
        totals, counts = np.asarray(sums[above])[:, None], np.asarray(sums[below])
        seed = found["settings"]["seed"]
        return resampled_means(totals, counts, how["resamples"], seed)[:, 0]

    rows = []
    for vocabulary, directory in zip(VOCABULARIES, directories, strict=True):
        for budget in BUDGETS:
            row, bits = {"vocabulary": vocabulary}, []
            for name in ("scratch", "adapted"):
                run = directory / "results" / "runs" / f"{name}{budget}"
                found = json.loads((run / "evaluation.json").read_text())
                trained = json.loads((run / "training.json").read_text())
                measured = directory / "logs" / "benchmarks" / "pretrain" / f"{name}{budget}.tsv"
                head, line = (text.split("\t") for text in measured.read_text().splitlines())
                row[name] = {
                    "processor_seconds": round(
                        float(dict(zip(head, line, strict=True))["cpu_time"])
                    ),
                    "steps": trained["steps"],
                    "bits": found["test"]["bits_per_character"],
                    "interval": found["test"]["bits_per_character_interval"],
                }
                nats_a_token = drawn(found, "loss", "predictions")
                bits.append(nats_a_token * drawn(found, "tokens", "characters") / math.log(2))
            low, high = np.quantile(bits[1] - bits[0], [0.025, 0.975])
            row["difference"] = round(row["adapted"]["bits"] - row["scratch"]["bits"], 6)
            row["difference_interval"] = [round(float(low), 6), round(float(high), 6)]
            rows.append(row)
    (RESULTS / "adapting.json").write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    if sys.argv[1:2] == ["adapting"]:
        gather_adapting([Path(given).resolve() for given in sys.argv[2:]])
    if sys.argv[1:2] == ["draws"]:
        measure_draws(Path(sys.argv[2]).resolve())
    for page in PAGES:
        path = BASE / page
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
