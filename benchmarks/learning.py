"""What a recipe learns: its validation loss by step, for given seeds.

  python benchmarks/learning.py train standard --set model.initialisation.attention=standard
  python benchmarks/learning.py search "model.config.hidden_size=192" \
    "model.config.hidden_size=192 pretraining.steps=1600" --seeds 0 1
  python benchmarks/learning.py differences "pretraining.steps=400" \
    "pretraining.optimizer.name=adamw pretraining.steps=400"
  python benchmarks/learning.py collect default results/runs/base results/runs/seed-1
  python benchmarks/learning.py draw default standard

`train` trains with the configuration's defaults and what --set changes, on the shards at hand
(snakemake --cores 2 results/manifests/train.json results/manifests/validation.json), and
looks at the validation split alone. Beside keys of the configuration, cooccurrence.*
changes the strengths of that initialisation. `search` trains with each list of
such changes and appends a row a training to docs/learning/runs.csv, with the processor time
that the whole of it took; the settings in the row name the recipe also where it is the default.
`differences` compares such rows with those of the first list, seed by seed. `collect` takes the
curves of runs that the workflow trained. `train` and `collect` leave docs/learning/<name>.csv, a
row for each validation of each seed. `draw` makes docs/learning.svg, or --figure, from such files,
with the unigram's test loss of docs/learning/default.json; other baselines, which see no answer,
do not compare with these losses.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

BASE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BASE / "scripts"))

from mlm.config.resolution import resolve  # noqa: E402

RECORDS = BASE / "docs" / "learning"
EVALUATION = RECORDS / "default.json"
COLUMNS = ("seed", "step", "loss", "validation_loss", "validation_accuracy")
RUNS = RECORDS / "runs.csv"
#: What a row of RUNS names in any case, since defaults change.
RECIPE = (
    "accelerator.precision",
    "model.config.hidden_size",
    "model.config.num_hidden_layers",
    "model.initialisation.attention",
    "model.initialisation.embeddings",
    "pretraining.masking.mlm_probability",
    "pretraining.optimizer.learning_rate",
    "pretraining.optimizer.name",
    "pretraining.per_replica_batch_size",
    "pretraining.softmax_classes",
    "pretraining.steps",
)


def overridden(config: dict, assignments: list[str]) -> dict:
    """`config` with every `dotted.key=value` put in, values read as YAML."""
    for assignment in assignments:
        key, _, value = assignment.partition("=")
        *sections, last = key.split(".")
        place = config
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = yaml.safe_load(value)
    return config


def recipe_of(settings: str) -> str:
    """`settings` and what of RECIPE they leave at its default, as they stand in RUNS."""
    given = dict(assignment.split("=", 1) for assignment in settings.split())
    config = resolve({})
    for key in RECIPE:
        value = config
        for part in key.split("."):
            value = value[part]
        given.setdefault(key, str(value))
    return " ".join(f"{key}={value}" for key, value in sorted(given.items()))


def record(name: str, seed: int, rows: list[dict]) -> None:
    """Put the rows of `seed` into docs/learning/<name>.csv, in place of earlier ones."""
    path = RECORDS / f"{name}.csv"
    kept = [row for row in read_record(name) if int(row["seed"]) != seed] if path.exists() else []
    new = [
        {"seed": seed, "step": row["step"]} | {c: f"{float(row[c]):.4f}" for c in COLUMNS[2:]}
        for row in rows
        if row["validation_loss"] not in (None, "")
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(kept + new, key=lambda r: (int(r["seed"]), int(r["step"]))))
    curve = "  ".join(f"{row['step']}: {row['validation_loss']}" for row in new)
    print(f"{name}, seed {seed}, validation loss by step: {curve}", flush=True)


def read_record(name: str) -> list[dict]:
    """Rows of docs/learning/<name>.csv, as text."""
    with (RECORDS / f"{name}.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def run_here(assignments: list[str], seed: int, state: str = "state"):
    """A run of the shards at hand, its configuration and its files; its states are in `state`."""
    from mlm.config.resolution import RunConfiguration
    from mlm.model.cooccurrence import STRENGTHS
    from mlm.training.run import RunFiles

    config = overridden({}, assignments)
    STRENGTHS.update(config.pop("cooccurrence", {}))
    run = RunConfiguration.of(resolve(config), "base")
    checkpoint = run.pretraining.checkpoint.model_copy(update={"directory": state, "keep": 1})
    run = run.with_values(name=f"seed-{seed}", seed=seed, pretraining={"checkpoint": checkpoint})
    files = RunFiles(
        tokenizer="results/tokenizer/tokenizer.json",
        manifests={s: f"results/manifests/{s}.json" for s in ("train", "validation")},
    )
    return run, files


def train_here(assignments: list[str], seed: int) -> tuple[list[dict], float]:
    """Rows of one training in this process, and its processor seconds; progress goes to stderr."""
    from mlm.training.pretrain import ResultFiles, prepare, pretrain

    with tempfile.TemporaryDirectory() as place:
        training = prepare(*run_here(assignments, seed, f"{place}/state"))
        results = ResultFiles(f"{place}/model", f"{place}/training.csv", f"{place}/training.json")
        begun, used = time.monotonic(), sum(os.times()[:4])
        pretrain(training, results)
        wall, cpu = time.monotonic() - begun, sum(os.times()[:4]) - used
        with open(results.log, newline="") as stream:
            rows = list(csv.DictReader(stream))
    steps = training.run.steps
    print(
        f"{wall:.1f} s, {1000 * wall / steps:.1f} ms a step ({1000 * cpu / steps:.1f} ms of "
        "processor), with the start, validations, saves and the export"
    )
    return rows, cpu


def in_processes(command: str, first: list[list[str]], options, rest: list[str]) -> None:
    """`command` anew for each of `first` and each seed: TensorFlow's devices are set up once in a
    process."""
    for arguments in first:
        for seed in options.seeds:
            call = [sys.executable, __file__, command, *arguments, "--seeds", str(seed), *rest]
            subprocess.run(call, check=True)


def train(options) -> None:
    if len(options.seeds) > 1:
        in_processes("train", [[options.name]], options, ["--set", *options.set])
        return
    seed = options.seeds[0]
    record(options.name, seed, train_here(options.set, seed)[0])


def search(options) -> None:
    if len(options.settings) * len(options.seeds) > 1:
        in_processes("search", [[s] for s in options.settings], options, [])
        return
    (settings,), (seed,) = options.settings, options.seeds
    rows, cpu = train_here(settings.split(), seed)
    last = rows[-1]
    row = {
        "settings": recipe_of(settings),
        "seed": seed,
        "steps": last["step"],
        "validation_loss": f"{float(last['validation_loss']):.4f}",
        "validation_accuracy": f"{float(last['validation_accuracy']):.4f}",
        "processor_seconds": f"{cpu:.0f}",
    }
    new = not RUNS.exists()
    with RUNS.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, row, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)
    print(*row.values(), flush=True)


def differences(options) -> None:
    """Means over the seeds that both have, and 95 % intervals by Student's t."""
    from scipy.stats import t

    losses: dict[str, dict[int, float]] = {}
    with RUNS.open(newline="") as stream:
        for row in csv.DictReader(stream):
            found = losses.setdefault(row["settings"], {})
            found[int(row["seed"])] = float(row["validation_loss"])
    full, *others = (losses.get(recipe_of(settings), {}) for settings in options.settings)
    print(
        f"{statistics.mean(full.values()):.3f} (mean of {len(full)} seeds): {options.settings[0]}"
    )
    for settings, found in zip(options.settings[1:], others, strict=True):
        pairs = [found[seed] - full[seed] for seed in sorted(found.keys() & full.keys())]
        if len(pairs) < 2:
            sys.exit(f"{settings}: {len(pairs)} seeds in common with the first; search it first")
        reach = t.ppf(0.975, len(pairs) - 1) * statistics.stdev(pairs) / len(pairs) ** 0.5
        mean = statistics.mean(pairs)
        interval = f"{mean - reach:+.3f} to {mean + reach:+.3f}"
        print(f"{mean:+.3f} ({interval}; {len(pairs)} seeds): {settings}")


def collect(options) -> None:
    for run in map(Path, options.runs):
        seed = json.loads((run / "training.json").read_text())["seed"]
        with (run / "training.csv").open(newline="") as stream:
            record(options.name, seed, list(csv.DictReader(stream)))


def draw(options) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "learning", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.5, 4))
    for number, name in enumerate(options.names):
        name, _, label = name.partition("=")
        rows = read_record(name)
        for seed in sorted({row["seed"] for row in rows}, key=int):
            points = [
                (int(r["step"]), float(r["validation_loss"])) for r in rows if r["seed"] == seed
            ]
            first = seed == min((row["seed"] for row in rows), key=int)
            axes.plot(
                *zip(*points, strict=True),
                color=f"C{number}",
                marker=("o", "s", "^", "D")[number % 4] if len(points) < 30 else None,
                ms=3,
                ls=("-", "--", "-.", (0, (1, 1)))[number % 4],
                lw=1.2,
                label=(label or name) if first else None,
            )
    loss = json.loads(EVALUATION.read_text())["baselines"]["unigram"]["hidden"]["loss"]
    axes.axhline(loss, color="grey", lw=0.8, ls=":")
    words = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": "small"}
    axes.annotate(" unigram, test", (1, loss), color="dimgrey", **words)
    axes.set_xlabel("step")
    axes.set_ylabel("validation loss, 10 % of targets visible (nats)")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", framealpha=1, fontsize="small")
    figure.tight_layout()
    figure.savefig(BASE / options.figure, metadata={"Date": None})
    print(options.figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train", help="train for each seed, one after the other")
    training.add_argument("name")
    training.add_argument("--seeds", type=int, nargs="+", default=[0])
    training.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    training.set_defaults(call=train)
    searching = commands.add_parser("search", help="train with each list of changes")
    searching.add_argument("settings", nargs="+", metavar='"KEY=VALUE ..."')
    searching.add_argument("--seeds", type=int, nargs="+", default=[0])
    searching.set_defaults(call=search)
    comparing = commands.add_parser("differences", help="losses less those of the first settings")
    comparing.add_argument("settings", nargs="+", metavar='"KEY=VALUE ..."')
    comparing.set_defaults(call=differences)
    collecting = commands.add_parser("collect", help="take the curves of the workflow's runs")
    collecting.add_argument("name")
    collecting.add_argument("runs", nargs="+", metavar="results/runs/RUN")
    collecting.set_defaults(call=collect)
    drawing = commands.add_parser("draw", help="plot curves")
    drawing.add_argument("names", nargs="+", metavar="NAME[=LABEL]")
    drawing.add_argument("--figure", default="docs/learning.svg")
    drawing.set_defaults(call=draw)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
