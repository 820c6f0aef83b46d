"""What a recipe learns: its validation loss by step, for several seeds.

  python benchmarks/learning.py search "model.config.hidden_size=192" \
    "model.config.hidden_size=192 pretraining.steps=1600" --seeds 0 1
  python benchmarks/learning.py search "model.initialisation.attention=standard" --curve standard
  python benchmarks/learning.py collect default results/runs/base results/runs/seed-1
  python benchmarks/learning.py draw default standard=usual

`search` trains with the configuration's defaults and each list of changes, on the shards at hand
(snakemake --cores 2 results/manifests/{train,validation}.json), and uses the validation split
alone. Each training appends a row to docs/learning/runs.csv with the processor time of all of it;
the settings in the row name the whole recipe, since defaults change. `collect` copies the
curves and evaluations of runs that the workflow trained. `collect` and --curve write
docs/learning/<name>.csv, a row for each validation of each seed. `draw` makes docs/learning.svg, or
--figure, from such files, with the unigram's test loss of docs/learning/longer.json.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

BASE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BASE / "scripts"))

from mlm.config.configuration import trainings  # noqa: E402
from mlm.config.overlays import resolve  # noqa: E402

RECORDS = BASE / "docs" / "learning"
COLUMNS = ("seed", "step", "loss", "validation_loss", "validation_accuracy")
RUNS = RECORDS / "runs.csv"
#: What `collect` copies of evaluation.json.
EVALUATION = ("run", "settings", "digests", "group_by", "cluster_by", "test", "train", "baselines")
EVALUATION += ("gap_to_train", "as_in_papers", "cluster_sums", "verdicts")
#: Settings that every row of RUNS names.
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


def overridden(assignments: list[str]) -> dict:
    """The configuration that every `dotted.key=value` sets, values read as YAML."""
    config: dict = {}
    for assignment in assignments:
        key, _, value = assignment.partition("=")
        *sections, last = key.split(".")
        place = config
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = yaml.safe_load(value)
    return config


def recipe_of(settings: str) -> str:
    """`settings` with the defaults of the other keys of RECIPE, as a row of RUNS has them."""
    recipe = dict(assignment.split("=", 1) for assignment in settings.split())
    config = resolve({}).model_dump()
    for key in RECIPE:
        value = config
        for part in key.split("."):
            value = value[part]
        recipe.setdefault(key, str(value))
    return " ".join(f"{key}={value}" for key, value in sorted(recipe.items()))


def write_rows(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path) -> list[dict]:
    """The rows of a CSV file, as text; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def record(name: str, seed: int, rows: list[dict]) -> None:
    """Replace the rows of `seed` in docs/learning/<name>.csv."""
    path = RECORDS / f"{name}.csv"
    curve = [row for row in read_rows(path) if int(row["seed"]) != seed] + [
        {"seed": seed, "step": row["step"]} | {c: f"{float(row[c]):.4f}" for c in COLUMNS[2:]}
        for row in rows
        if row["validation_loss"]
    ]
    write_rows(path, sorted(curve, key=lambda row: (int(row["seed"]), int(row["step"]))))


def run_here(assignments: list[str], seed: int, state: str):
    """A run of the shards at hand, its configuration and its files; its states are in `state`."""
    from mlm.training.resolved_run import RunFiles

    run = trainings(resolve(overridden(assignments)))["base"]
    checkpoint = run.operation.checkpoint.model_copy(update={"directory": state, "keep": 1})
    run = run.with_values(name=f"seed-{seed}", seed=seed, operation={"checkpoint": checkpoint})
    files = RunFiles(
        tokenizer="results/tokenizer/tokenizer.json",
        manifests={s: f"results/manifests/{s}.json" for s in ("train", "validation")},
    )
    return run, files


def search(options) -> None:
    """Each training in a process of its own: TensorFlow's devices are set up once in each."""
    if len(options.settings) * len(options.seeds) > 1:
        for settings in options.settings:
            for seed in options.seeds:
                call = [sys.executable, __file__, "search", settings, "--seeds", str(seed)]
                call += ["--curve", options.curve] if options.curve else []
                subprocess.run(call, check=True)
        return
    from mlm.training.pretrain import prepare, pretrain

    (settings,), (seed,) = options.settings, options.seeds
    with tempfile.TemporaryDirectory() as place:
        training = prepare(*run_here(settings.split(), seed, f"{place}/state"))
        used = sum(os.times()[:4])
        pretrain(training, place)
        used = sum(os.times()[:4]) - used
        rows = read_rows(Path(place, "training.csv"))
    row = {
        "settings": recipe_of(settings),
        "seed": seed,
        "steps": rows[-1]["step"],
        "validation_loss": f"{float(rows[-1]['validation_loss']):.4f}",
        "validation_accuracy": f"{float(rows[-1]['validation_accuracy']):.4f}",
        "processor_seconds": f"{used:.0f}",
    }
    write_rows(RUNS, [*read_rows(RUNS), row])
    if options.curve:
        record(options.curve, seed, rows)
    print(*row.values(), flush=True)


def collect(options) -> None:
    """Copy the curves of runs of the workflow, and EVALUATION of their evaluations."""
    for run in map(Path, options.runs):
        seed = json.loads((run / "training.json").read_text())["seed"]
        record(options.name, seed, read_rows(run / "training.csv"))
        evaluation = json.loads((run / "evaluation.json").read_text())
        figures = {key: evaluation[key] for key in EVALUATION}
        path = RECORDS / (f"{options.name}-{seed}.json" if seed else f"{options.name}.json")
        path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


def draw(options) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "learning", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.5, 4))
    for number, name in enumerate(options.names):
        name, _, label = name.partition("=")
        curves: dict[str, list[tuple[int, float]]] = {}
        for row in read_rows(RECORDS / f"{name}.csv"):
            point = int(row["step"]), float(row["validation_loss"])
            curves.setdefault(row["seed"], []).append(point)
        for index, points in enumerate(curves.values()):
            look = {"color": f"C{number}", "ls": ("-", "--", "-.", ":")[number % 4], "lw": 1.2}
            look |= {"marker": "os^D"[number % 4] if len(points) < 30 else None, "ms": 3}
            axes.plot(*zip(*points, strict=True), label=None if index else label or name, **look)
    unigram = json.loads((RECORDS / "default.json").read_text())["baselines"]["unigram"]
    loss = unigram["loss"]
    axes.axhline(loss, color="grey", lw=0.8, ls=":")
    words = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": "small"}
    axes.annotate(" unigram, test", (1, loss), color="dimgrey", **words)
    axes.set(xlabel="step", ylabel="validation loss, 10 % of targets visible (nats)")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", framealpha=1, fontsize="small")
    figure.tight_layout()
    figure.savefig(BASE / options.figure, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    searching = commands.add_parser("search", help="train with each list of changes")
    searching.add_argument("settings", nargs="+", metavar='"KEY=VALUE ..."')
    searching.add_argument("--seeds", type=int, nargs="+", default=[0])
    searching.add_argument("--curve", metavar="NAME", help="also write docs/learning/NAME.csv")
    searching.set_defaults(call=search)
    collecting = commands.add_parser("collect", help="copy curves and evaluations of runs")
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
