"""All folds of a fine-tuning together, beside the baseline: scores, differences, verdicts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path

import numpy as np
from huggingface_hub import ModelCardData

from mlm.config.finetune import Finetune
from mlm.evaluation.artefacts import Verdict
from mlm.evaluation.intervals import CONFIDENCE, Estimate, sums_by_cluster
from mlm.evaluation.verdicts import FEW_CLUSTERS
from mlm.finetuning.artefacts import (
    BaselineRecord,
    Example,
    ExampleData,
    ExamplesSummary,
    FoldRecord,
    Prediction,
    classes_of,
    names_in,
    read_examples,
    read_predictions,
    write_predictions,
)
from mlm.finetuning.finetuning_metrics import (
    NAMES,
    Finetuning,
    Measured,
    ModelScores,
    PartSize,
    ScoreDifference,
    ShownPredictions,
    name_of,
)
from mlm.finetuning.scores import Metric, metric_of
from mlm.foundations.atomic import read_json, write_text
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.terminal import signed
from mlm.training.model_card import NEEDED_PACKAGES, card, card_table

#: Two starts of the same network; the last of NAMES is the baseline, and others are published.
STARTS = ("pretrained", "random")
_PAIRS = (("pretrained", "random"), ("pretrained", "baseline"), ("random", "baseline"))
#: Points kept for a plot of predicted against true.
_POINTS = 600
_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "tokenizers")
#: Settings that metrics.json records.
_RECORDED = {"epochs", "folds", "learning_rate", "max_length", "per_device_batch_size", "seeds"}
_PARTS = {"all": "on all passages", "unseen": "on passages that pretraining never trained on"}


def write_results(
    run: str,
    section: Finetune,
    examples: str | Path,
    ridge: str | Path,
    folds: Mapping[str, Sequence[str | Path]],
    directory: str | Path,
) -> Finetuning:
    """Write metrics.json, oof*.csv and the model's card to `directory`, and return the content of
    metrics.json. `examples` and `ridge` are tables with their JSON beside them, `folds` the
    directories of each start's folds, and of each published encoder's."""
    rows, directory = read_examples(examples), Path(directory)
    published = [name for name in folds if name not in STARTS]
    files = {name: [Path(fold) / "predictions.csv" for fold in folds[name]] for name in folds}
    predictions = {}
    for name in (*NAMES, *published):
        tables = map(read_predictions, files.get(name, [ridge]))
        by_id = {row.id: row for row in chain.from_iterable(tables)}
        predictions[name] = [by_id[row.id] for row in rows]
        if name in NAMES:
            suffix = "" if name == "pretrained" else f"_{name}"
            write_predictions(directory / f"oof{suffix}.csv", predictions[name])
    summary = ExamplesSummary.read(Path(examples).with_suffix(".json"))
    records = {s: [FoldRecord.read(Path(f) / "fold.json") for f in folds[s]] for s in folds}
    metrics = Finetuning(
        run=run,
        **scores_of(rows, predictions, section),
        data=ExampleData(**{f.name: getattr(summary, f.name) for f in fields(ExampleData)}),
        baseline=BaselineRecord.read(Path(ridge).with_suffix(".json")).chosen,
        learning_rates={name: [r.learning_rate for r in of] for name, of in records.items()},
        settings=section.model_dump(include=_RECORDED),
        digests={
            "examples": file_sha256(examples),
            "model": file_sha256(directory / "model" / "model.safetensors"),
        },
        packages=package_versions(_PACKAGES),
        also={name: records[name][0].encoder or "" for name in published} or None,
    )
    family = read_json(directory / "model" / "config.json")["model_type"]
    write_text(directory / "model" / "README.md", finetuned_card(metrics, family))
    metrics.write(directory / "metrics.json")
    return metrics


def parts_of(examples: Sequence[Example]) -> dict[str, np.ndarray]:
    """Rows of all examples and, if pretraining's splits are known, of those that it never trained
    on (unseen) and of the others (seen)."""
    seen = np.array([{"": -1, "train": 1}.get(e.split, 0) for e in examples])
    chosen = {"all": seen > -2, "unseen": seen == 0, "seen": seen == 1}
    return {name: np.flatnonzero(rows) for name, rows in chosen.items() if rows.any()}


def scores_of(
    examples: Sequence[Example], predictions: Mapping[str, Sequence[Prediction]], section: Finetune
) -> dict:
    """The fields of `Finetuning` that follow from the predictions by model, [examples] in order."""
    task = section.task
    metric, parts = metric_of(task, classes_of(examples, task)), parts_of(examples)
    sums = {name: metric.sums(rows) for name, rows in predictions.items()}
    units, fold_of = np.array([e.unit for e in examples]), np.array([e.fold for e in examples])
    compared = {
        part: Comparison(metric, {n: s[rows] for n, s in sums.items()}, units[rows])
        for part, rows in parts.items()
    }
    models = {}
    for name, rows in predictions.items():
        of_folds = [sums[name][fold_of == fold].sum((0, 1)) for fold in range(section.folds)]
        folds, seeds = metric.score(np.array(of_folds)), metric.score(sums[name].sum(0))
        models[name] = ModelScores(
            **{part: comparison.of(name) for part, comparison in compared.items()},
            folds=folds.round(6).tolist(),
            mean=round(float(folds.mean()), 6),
            spread=round(float(folds.std(ddof=1)), 6),
            seeds=seeds.round(6).tolist() if name != "baseline" else None,
            macro_f1=macro_f1(rows) if task == "classification" else None,
        )
    sizes = {
        name: PartSize(len(part), len({examples[i].group for i in part} - {""}))
        for name, part in parts.items()
    }
    pairs = [*_PAIRS, *(("pretrained", name) for name in models if name not in NAMES)]
    differences = [
        ScoreDifference(**{p: c.of(a, b) for p, c in compared.items()}, model=a, beside=b)
        for a, b in pairs
    ]
    return {
        "task": task,
        "score": metric.name,
        "confidence": CONFIDENCE,
        "parts": sizes,
        "models": models,
        "differences": differences,
        "shown": shown_of(examples, predictions["pretrained"], task),
        "verdicts": finetuning_verdicts(metric, task, sizes, differences),
    }


def macro_f1(rows: Sequence[Prediction]) -> float:
    """The mean over trainings and the classes of the targets of 2 TP / (2 TP + FP + FN)."""
    targets, scores = np.array([r.target for r in rows]), []
    for predicted in np.array([r.predictions for r in rows]).T:
        for name in np.unique(targets):
            true, positive = targets == name, predicted == name
            scores.append(2 * np.sum(true & positive) / (np.sum(true) + np.sum(positive)))
    return round(float(np.mean(scores)), 6)


def shown_of(
    examples: Sequence[Example], rows: Sequence[Prediction], task: str
) -> ShownPredictions:
    """Evenly spaced true and predicted values, or counts by class, from each first training."""
    if task == "regression":
        rows = rows[:: max(1, -(-len(rows) // _POINTS))]
        return ShownPredictions(
            true=[float(r.target) for r in rows], predicted=[float(r.predictions[0]) for r in rows]
        )
    classes = classes_of(examples, task)
    pairs = Counter(
        pair
        for row in rows
        for pair in zip(*(names_in(x, task) for x in (row.target, row.predictions[0])), strict=True)
    )
    counts = [[pairs[true, predicted] for predicted in classes] for true in classes]
    return ShownPredictions(classes=classes, counts=counts)


class Comparison:
    """Scores of several models on the same examples, and the differences between them, paired.
    `sums` are those of a `Metric` by model; an example's are their means over the trainings.
    Intervals are over the `units` [examples]."""

    def __init__(self, metric: Metric, sums: Mapping[str, np.ndarray], units: np.ndarray):
        self._metric, self._names = metric, list(sums)
        means = np.concatenate([values.mean(axis=1) for values in sums.values()], axis=1)
        self._sums = sums_by_cluster(units, *means.T)

    def of(self, name: str, beside: str | None = None) -> Measured:
        """Return a model's score, or how much higher it is than that of the model `beside`."""

        def score(sums: np.ndarray) -> np.ndarray:
            scores = self._metric.score(sums[..., :-1].reshape(*sums.shape[:-1], -1, 2))
            other = 0 if beside is None else scores[..., self._names.index(beside)]
            return scores[..., self._names.index(name)] - other

        estimate = Estimate.of(self._sums, score)
        is_share = beside is None and not self._metric.less_is_better
        ends = estimate.share_interval if is_share else estimate.interval
        return Measured(round(estimate.value, 6), ends and (round(ends[0], 6), round(ends[1], 6)))


def finetuning_verdicts(
    metric: Metric, task: str, parts: dict[str, PartSize], differences: list[ScoreDifference]
) -> list[Verdict]:
    """One verdict for each difference and part."""
    verdicts = []
    for difference in differences:
        for part, words in _PARTS.items():
            if (measured := getattr(difference, part)) is None:
                continue
            interval, tone, relation = "no interval: one group", "even", "not told apart from"
            if measured.interval:
                low, high = measured.interval
                interval = f"{100 * CONFIDENCE:g} % interval {signed(low)} to {signed(high)}"
                clusters = parts[part].groups or parts[part].examples
                if clusters < FEW_CLUSTERS:
                    interval += f", rough because from only {clusters} groups"
                if not low <= 0 <= high:
                    tone = "better" if (measured.score < 0) == metric.less_is_better else "worse"
                    relation = f"{tone} than"
            name, other = name_of(difference.model, task), name_of(difference.beside, task)
            subject = f"{name[0].upper()}{name[1:]}" + (", it" if name.startswith("fine") else "")
            amount = f"{signed(measured.score)} in {metric.unit}"
            text = f"{subject} is {relation} {other} {words}: {amount}"
            verdicts.append(Verdict(tone, f"{text} ({interval})."))
    return verdicts


def finetuned_card(metrics: Finetuning, family: str) -> str:
    """README.md of the model to use, of the model_type `family`. It holds the names of the classes
    and figures, and no text of the examples."""
    names = ", ".join(f"`{name}`" for name in metrics.shown.classes or ())
    pipeline, answer = "text-classification", f"the most likely of the classes {names}"
    how = 'predict("The text to judge.", truncation=True)'
    if metrics.task == "regression":
        answer = "the predicted value as `score`"
    elif metrics.task == "token_classification":
        pipeline, answer = "token-classification", f"the tag of each piece of a word, of {names}"
        answer += "; that of a word is its first piece's"
        how = 'predict("The text to tag.", aggregation_strategy="first")'
    rows = [
        (
            name_of(name, metrics.task),
            f"{model.all.score:.3f}",
            " to ".join(f"{end:.3f}" for end in model.all.interval or ()) or "not measured",
        )
        for name, model in metrics.models.items()
    ]
    return card(
        ModelCardData(
            license="other",
            library_name="transformers",
            pipeline_tag=pipeline,
            tags=[metrics.task, family],
        ),
        f"# {metrics.run}, fine-tuned",
        f"A {family} model for {metrics.task.replace('_', ' ')}, fine-tuned on all "
        f"{metrics.parts['all'].examples:,} examples.",
        "## Use",
        "```python\nfrom transformers import pipeline\n\n"
        f'predict = pipeline("{pipeline}", model="path/to/this/directory")\n{how}\n```',
        f"It gives {answer}. {NEEDED_PACKAGES}",
        "## Evaluation",
        f"Scores of models trained on all of {len(metrics.models['pretrained'].folds)} folds but "
        "one, on the examples of that one (cross-validation), with "
        f"{metrics.confidence:.0%} intervals. This model has learned from a few more examples.",
        card_table(["model", metrics.score, "interval"], rows),
    )
