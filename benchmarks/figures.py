"""Print the tables of README.md and docs/ that come from the results in docs/learning/.

    python benchmarks/figures.py

Each table is printed under the names of its pages; a test compares the pages with it.
`*.json` are figures from evaluation.json of runs, and what `trainer.py` wrote; in
`runs*.csv` each row is a training, added by `learning.py search`; the other CSV files are curves.
"""

import csv
import json
import statistics
from collections.abc import Iterable
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "learning"
#: The runs of the table `runs`: their file, name and seed.
RUNS = (
    ("default", "the default", 0),
    *(("longer", "3,400 steps", 0), ("longer-1", "3,400 steps", 1), ("longer-2", "3,400 steps", 2)),
    *(("long", "`embedded-long`", 0), ("modern", "`modern`", 0)),
)
BASELINES = {
    "unigram": "unigram",
    "bigram": "two-sided bigram",
    "trigram": "two-sided trigram",
}
#: Each part of the recipe: what replaces it, and the setting that does so, by the recipe's version.
_HEADS = "neighbour heads (`standard` attention, positions apart from words)"
WITHOUT = (
    ("heads in the second layer (in the first alone)", "runs", "code", "one_layer_without_copies"),
    ("sampled softmax (the whole vocabulary)", "runs", "pretraining.softmax_classes", "null"),
    ("embeddings from counts", "runs-0.2.0", "model.initialisation.embeddings", "random"),
    (_HEADS, "runs-0.2.0", "model.initialisation.attention", "standard"),
    ("a mask share of 0.3 (0.15)", "runs-0.2.0", "pretraining.masking.mlm_probability", "0.15"),
    ("Muon (AdamW at the same rate)", "runs-0.2.0", "pretraining.optimizer.name", "adamw"),
    ("bfloat16 (float32)", "runs-0.2.0", "accelerator.precision", "float32"),
)
#: Settings that change nothing that is compared.
IGNORED = ("cpu_threads", "every")
RECIPE = {
    "accelerator.precision": "auto",
    "model.config.hidden_size": "128",
    "model.config.num_hidden_layers": "2",
    "model.initialisation.attention": "neighbour_heads",
    "model.initialisation.embeddings": "cooccurrence",
    "pretraining.masking.mlm_probability": "0.3",
    "pretraining.optimizer.learning_rate": "0.006",
    "pretraining.optimizer.name": "muon",
    "pretraining.per_replica_batch_size": "64",
}
#: The recipe of each version, trained for fewer steps.
SHORT = {
    "runs": RECIPE | {"pretraining.softmax_classes": "1500", "pretraining.steps": "300"},
    "runs-0.2.0": RECIPE | {"pretraining.steps": "700"},
}
SIDES = {
    "workflow": "this workflow's default",
    "tuned": "ModernBERT by hand in PyTorch",
    "trainer": "Trainer, RoBERTa (still on the plateau)",
}
PLANS = {
    "rows-64": "64 throughout, read at 64",
    "rows-256": "256 throughout",
    "rows-64-then-256": "64, then 256 for the last tenth",
    "mask-0.3-then-0.15": "256, mask share 0.3, then 0.15 for the second half",
}
STARTS = {
    "usual": "the usual one",
    "counts": "word embeddings from counts",
    "two-lines": "word embeddings from counts, and attention heads that look at their neighbours",
}


def stored(name: str):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def rows_of(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def trainings(name: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    """The settings and the figures of each training in runs.csv or runs-0.2.0.csv."""
    return [
        ({k: v for k, v in settings.items() if k.split(".")[-1] not in IGNORED}, row)
        for row in rows_of(name)
        for settings in [dict(pair.split("=", 1) for pair in row["settings"].split())]
    ]


def nats(number: float) -> str:
    """A number with three decimals and a true minus."""
    return f"{number:.3f}".replace("-", "−")


def with_interval(number: float, ends: Iterable[float]) -> str:
    return f"{nats(number)} ({' to '.join(map(nats, ends))})"


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; `head` names its columns, divided by |."""
    columns = [name.strip() for name in head.split("|")]
    lines = [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in (columns, *rows)]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]])


def baselines() -> str:
    run = stored("default")
    test = run["test"]
    loss = with_interval(test["loss"], test["loss_interval"])
    rows = [("the default", loss, "", f"{100 * test['accuracy']:.1f} %")]
    for key, name in BASELINES.items():
        baseline = run["baselines"][key]
        loss, accuracy = nats(baseline["loss"]), baseline["accuracy"]
        change = baseline["loss_difference"]
        change = with_interval(change["value"], change["interval"])
        rows.append((name, loss, change, f"{100 * accuracy:.1f} %"))
    return table("seed 0 | test loss (nats) | the default minus this | accuracy", rows)


def runs() -> str:
    rows = []
    for file, name, seed in RUNS:
        run = stored(file)
        test, trigram = run["test"], run["baselines"]["trigram"]["loss_difference"]
        loss = with_interval(test["loss"], test["loss_interval"])
        both = trigram, run["gap_to_train"]
        against = (with_interval(one["value"], one["interval"]) for one in both)
        rows.append((name, str(seed), loss, nats(run["as_in_papers"]["loss"]), *against))
    head = "run | seed | test loss | over all predictions | minus the trigram's | minus train's"
    return table(head, rows)


def same_time() -> str:
    """Each side of `trainer.py`, over its seeds."""
    record = stored("trainer")
    rows = []
    for side, name in SIDES.items():
        runs = [row for row in record["trainings"] if row["side"] == side]
        losses, accuracies = ([run[key] for run in runs] for key in ("loss", "accuracy"))
        seconds = statistics.mean(run["processor_seconds"] for run in runs)
        loss = f"{nats(statistics.mean(losses))} ({nats(min(losses))} to {nats(max(losses))})"
        accuracy = f"{100 * statistics.mean(accuracies):.1f} %"
        rows.append((name, f"{runs[0]['steps']:,}", f"{seconds:.0f}", loss, accuracy))
    head = "three seeds | steps | processor seconds | test loss, mean (all) | accuracy"
    return table(head, rows)


def phases() -> str:
    """Each plan of `phases.py` by corpus, against rows of 256 throughout: the same test groups, the
    sums of the seeds added up."""
    import numpy as np

    from mlm.evaluation.intervals import Estimate

    def sums(runs: list[dict]) -> np.ndarray:
        return np.sum([(run["loss"], run["predictions"]) for run in runs], axis=0).T

    def difference(totals: np.ndarray) -> np.ndarray:
        return totals[..., 0] / totals[..., 1] - totals[..., 2] / totals[..., 3]

    rows = []
    for corpus, plans in stored("phases").items():
        of_256 = sums(plans["rows-256"])
        for key, name in PLANS.items():
            table_of = sums(plans[key])
            loss = Estimate.of(table_of)
            paired = Estimate.of(np.hstack([table_of, of_256]), difference)
            change = "" if key == "rows-256" else with_interval(paired.value, paired.interval or ())
            rows.append((corpus, name, f"{plans[key][0]['steps']:,}", nats(loss.value), change))
    return table("corpus | rows | steps | test loss | minus that of rows of 256", rows)


def parts() -> str:
    """The loss without each part of the recipe, over the seeds that both have."""
    from scipy.stats import t

    rows = []
    for label, name, key, value in WITHOUT:
        whole, losses = (
            {r["seed"]: float(r["validation_loss"]) for s, r in trainings(name) if s == recipe}
            for recipe in (SHORT[name], SHORT[name] | {key: value})
        )
        differences = [losses[seed] - whole[seed] for seed in losses.keys() & whole.keys()]
        mean, count = statistics.mean(differences), len(differences)
        reach = t.ppf(0.975, count - 1) * statistics.stdev(differences) / count**0.5
        loss, of_whole = (nats(statistics.mean(x.values())) for x in (losses, whole))
        change = with_interval(mean, (mean - reach, mean + reach))
        rows.append((label, str(count), loss, of_whole, change))
    head = "without (instead) | seeds | validation loss | with it | increase"
    return table(head, rows)


def search() -> str:
    """Every training of version 0.2.0's recipe with another batch, rate or mask share, seed 0."""
    keys = ("per_replica_batch_size", "steps", "optimizer.learning_rate", "masking.mlm_probability")
    keys = tuple(f"pretraining.{key}" for key in keys)
    others = {key: value for key, value in RECIPE.items() if key not in keys}
    rows = [
        [float(settings[key]) for key in keys]
        + [float(row["validation_loss"]), float(row["processor_seconds"])]
        for settings, row in trainings("runs-0.2.0")
        if row["seed"] == "0" and {k: v for k, v in settings.items() if k not in keys} == others
    ]
    head = "samples a step | steps | rate | mask share | validation loss | processor seconds"
    return table(
        head,
        (
            (f"{batch:.0f}", f"{steps:,.0f}", f"{rate:g}", f"{share:g}", nats(loss), f"{cpu:.0f}")
            for batch, steps, rate, share, loss, cpu in sorted(rows)
            if steps >= 390
        ),
    )


def plateau() -> str:
    """Every training of version 0.2.0 from the usual start."""
    usual = {
        "model.initialisation.attention": "standard",
        "model.initialisation.embeddings": "random",
    }
    names = {"muon": "Muon", "adamw": "AdamW"}
    rows = [
        (
            names[settings["pretraining.optimizer.name"]],
            int(row["steps"]),
            float(settings["pretraining.optimizer.learning_rate"]),
            float(row["validation_loss"]),
        )
        for settings, row in trainings("runs-0.2.0")
        if RECIPE.keys() <= settings.keys() and settings | usual == settings
    ]
    head = "optimizer | steps | rate | validation loss"
    return table(head, ((n, f"{s:,}", f"{r:g}", nats(x)) for n, s, r, x in sorted(rows)))


def starts() -> str:
    ends = {name: rows_of(f"stuck-{name}")[-1] for name in STARTS}
    (steps,) = {row["step"] for row in ends.values()}
    rows = ((STARTS[n], f"{float(row['validation_loss']):.2f}") for n, row in ends.items())
    return table(f"start | validation loss after {int(steps):,} steps", rows)


def adapting() -> str:
    """Scratch and adapted, by vocabulary and budget."""
    rows = []
    for row in stored("adapting"):
        both = [row[name] for name in ("scratch", "adapted")]
        costs = (
            " and ".join(f"{run[key]:,}" for run in both) for key in ("processor_seconds", "steps")
        )
        bits = (with_interval(run["bits"], run["interval"]) for run in both)
        change = with_interval(row["difference"], row["difference_interval"])
        rows.append((row["vocabulary"], *costs, *bits, change))
    head = "vocabulary | processor seconds | steps | scratch | adapted | adapted − scratch"
    return table(head, rows)


#: Each table with the pages that show it.
TABLES = {
    baselines: ("README.md", "docs/learning.md"),
    runs: ("docs/learning.md",),
    parts: ("docs/learning.md",),
    search: ("docs/learning.md",),
    phases: ("docs/learning.md",),
    same_time: ("docs/comparison.md",),
    starts: ("docs/loss-stuck.md",),
    plateau: ("docs/loss-stuck.md",),
    adapting: ("docs/adapting.md",),
}


def main() -> None:
    for make, pages in TABLES.items():
        print(f"{make.__name__}: {', '.join(pages)}\n\n{make()}\n")


if __name__ == "__main__":
    main()
