"""All folds of a fine-tuning together, beside the baseline: scores, differences, verdicts."""

import shutil
import statistics
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
    Example,
    ExampleData,
    ExamplesSummary,
    FoldRecord,
    Prediction,
    RidgeRecord,
    classes_of,
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
from mlm.foundations.atomic import read_json, replacing, write_text
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import package_versions
from mlm.foundations.terminal import signed
from mlm.training.model_card import NEEDED_PACKAGES, card, card_table

#: Two starts of the same network; the last of NAMES is the baseline, and others are published.
STARTS = ("pretrained", "random")
_PAIRS = (("pretrained", "random"), ("pretrained", "tfidf_ridge"), ("random", "tfidf_ridge"))
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
    tokenizer: Sequence[str | Path],
    directory: str | Path,
) -> Finetuning:
    """Write metrics.json, oof*.csv and the best fold's model to `directory`, and
    return the content of metrics.json. `examples` and `ridge` are tables with their JSON beside
    them, `folds` the directories of each start's folds, and of each published encoder's."""
    rows, directory = read_examples(examples), Path(directory)
    published = [name for name in folds if name not in STARTS]
    files = {name: [Path(fold) / "predictions.csv" for fold in folds[name]] for name in folds}
    predictions = {}
    for name in (*NAMES, *published):
        tables = map(read_predictions, files.get(name, [ridge]))
        by_id = {row.id: row for row in chain.from_iterable(tables)}
        predictions[name] = [by_id[row.id] for row in rows]
        suffix = "" if name == "pretrained" else f"_{name}"
        if name in NAMES:
            write_predictions(directory / f"oof{suffix}.csv", predictions[name])
    scores = scores_of(rows, predictions, section)
    best = Path(folds["pretrained"][scores["best_fold"]])
    summary = ExamplesSummary.read(Path(examples).with_suffix(".json"))
    records = {name: FoldRecord.read(Path(folds[name][0]) / "fold.json") for name in published}
    metrics = Finetuning(
        run=run,
        **scores,
        data=ExampleData(**{f.name: getattr(summary, f.name) for f in fields(ExampleData)}),
        baseline=RidgeRecord.read(Path(ridge).with_suffix(".json")).chosen,
        settings=section.model_dump(include=_RECORDED),
        digests={
            "examples": file_sha256(examples),
            "model": file_sha256(best / "model.safetensors"),
        },
        packages=package_versions(_PACKAGES),
        also={name: record.encoder or "" for name, record in records.items()} or None,
    )
    for source in [best / "model.safetensors", best / "config.json", *map(Path, tokenizer)]:
        with replacing(directory / "model" / source.name) as temporary:
            shutil.copyfile(source, temporary)
    family = read_json(best / "config.json")["model_type"]
    write_text(directory / "model" / "README.md", finetuned_card(metrics, family))
    metrics.write(directory / "metrics.json")
    return metrics


def parts_of(examples: Sequence[Example]) -> dict[str, np.ndarray]:
    """Rows of all examples and, if pretraining's splits are known, of those that it never trained
    on (unseen) and of the others (seen)."""
    seen = np.array([{"": -1, "train": 1}.get(e.split, 0) for e in examples])
    chosen = {"all": seen > -2, "unseen": seen == 0, "seen": seen == 1}
    return {name: np.flatnonzero(rows) for name, rows in chosen.items() if rows.any()}


def figures_of(rows: Sequence[Prediction], task: str) -> np.ndarray:
    """What a score averages, float [examples, trainings]: squared errors, or 1 if right."""
    if task == "regression":
        values = np.array([r.predictions for r in rows], np.float64)
        return (values - np.array([[float(r.target)] for r in rows])) ** 2
    return np.array([[float(p == r.target) for p in r.predictions] for r in rows])


def scores_of(
    examples: Sequence[Example],
    predictions: Mapping[str, Sequence[Prediction]],
    section: Finetune,
) -> dict:
    """The fields of `Finetuning` that follow from the predictions by model, [examples] in order."""
    regression, parts = section.task == "regression", parts_of(examples)
    figures = {name: figures_of(rows, section.task) for name, rows in predictions.items()}
    units, fold_of = np.array([e.unit for e in examples]), np.array([e.fold for e in examples])
    compared = {
        part: Comparison({n: f[rows] for n, f in figures.items()}, units[rows], regression)
        for part, rows in parts.items()
    }

    def rounded(means: Sequence[float]) -> list[float]:
        return [round(float(s), 6) for s in (np.sqrt(means) if regression else means)]

    def by_fold(values: np.ndarray) -> list[float]:
        return rounded([values[fold_of == fold].mean() for fold in range(section.folds)])

    models = {}
    for name, rows in predictions.items():
        folds = by_fold(figures[name])
        models[name] = ModelScores(
            **{part: comparison.of(name) for part, comparison in compared.items()},
            folds=folds,
            mean=round(statistics.fmean(folds), 6),
            spread=round(statistics.stdev(folds), 6),
            seeds=rounded(figures[name].mean(axis=0)) if name != "tfidf_ridge" else None,
            macro_f1=None if regression else macro_f1(rows),
        )
    # The model that a fold keeps is that of its first training.
    first = by_fold(figures["pretrained"][:, 0])
    sizes = {
        name: PartSize(len(part), len({examples[i].group for i in part} - {""}))
        for name, part in parts.items()
    }
    pairs = [*_PAIRS, *(("pretrained", name) for name in models if name not in NAMES)]
    differences = [
        ScoreDifference(
            **{p: c.of(*pair) for p, c in compared.items()}, model=pair[0], beside=pair[1]
        )
        for pair in pairs
    ]
    score = "rmse" if regression else "accuracy"
    return {
        "task": section.task,
        "score": score,
        "confidence": CONFIDENCE,
        "parts": sizes,
        "models": models,
        "differences": differences,
        "best_fold": first.index((min if regression else max)(first)),
        "shown": shown_of(examples, predictions["pretrained"], regression),
        "verdicts": finetuning_verdicts(score, CONFIDENCE, sizes, differences),
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
    examples: Sequence[Example], rows: Sequence[Prediction], regression: bool
) -> ShownPredictions:
    """True and predicted values of evenly spaced examples, or counts by true and predicted class,
    from each fold's first training."""
    if regression:
        rows = rows[:: max(1, -(-len(rows) // _POINTS))]
        return ShownPredictions(
            true=[float(r.target) for r in rows], predicted=[float(r.predictions[0]) for r in rows]
        )
    classes = classes_of(examples, "classification")
    pairs = Counter((r.target, r.predictions[0]) for r in rows)
    counts = [[pairs[true, predicted] for predicted in classes] for true in classes]
    return ShownPredictions(classes=classes, counts=counts)


class Comparison:
    """Scores of several models on the same examples, and the differences between them, paired. A
    model's figure for an example is its mean over the trainings. `figures` holds by model what is
    averaged, float [examples, trainings]: squared errors, `rooted`, or 1 or 0. Intervals are over
    the `units` [examples]."""

    def __init__(self, figures: dict[str, np.ndarray], units: np.ndarray, rooted: bool):
        means = [np.mean(values, axis=1) for values in figures.values()]
        self._names, self._finish = list(figures), np.sqrt if rooted else np.asarray
        self._sums = sums_by_cluster(units, *means)

    def of(self, name: str, beside: str | None = None) -> Measured:
        """Return a model's score, or how much higher it is than that of the model `beside`."""

        def score(sums: np.ndarray) -> np.ndarray:
            scores = self._finish(sums[..., :-1] / sums[..., -1:])
            other = 0 if beside is None else scores[..., self._names.index(beside)]
            return scores[..., self._names.index(name)] - other

        estimate = Estimate.of(self._sums, score)
        ends = estimate.interval
        return Measured(round(estimate.value, 6), ends and (round(ends[0], 6), round(ends[1], 6)))


def finetuning_verdicts(
    score: str, confidence: float, parts: dict[str, PartSize], differences: list[ScoreDifference]
) -> list[Verdict]:
    """One verdict for each difference and part. `score`: rmse (less is better) or accuracy."""
    unit, verdicts = "RMSE" if score == "rmse" else "accuracy", []
    for difference in differences:
        for part, words in _PARTS.items():
            if (measured := getattr(difference, part)) is None:
                continue
            interval, tone, relation = "no interval: one group", "even", "not told apart from"
            if measured.interval:
                low, high = measured.interval
                interval = f"{100 * confidence:g} % interval {signed(low)} to {signed(high)}"
                clusters = parts[part].groups or parts[part].examples
                if clusters < FEW_CLUSTERS:
                    interval += f", rough because from only {clusters} groups"
                if not low <= 0 <= high:
                    tone = "better" if (measured.score < 0) == (score == "rmse") else "worse"
                    relation = f"{tone} than"
            name, other = name_of(difference.model), name_of(difference.beside)
            subject = f"{name[0].upper()}{name[1:]}" + (", it" if name.startswith("fine") else "")
            text = f"{subject} is {relation} {other} {words}: {signed(measured.score)} in {unit}"
            verdicts.append(Verdict(tone, f"{text} ({interval})."))
    return verdicts


def finetuned_card(metrics: Finetuning, family: str) -> str:
    """README.md of the best fold's model, of the model_type `family`. It holds the names of the
    classes and figures, and no text of the examples."""
    answer = "the predicted value as `score`"
    if metrics.shown.classes:
        names = ", ".join(f"`{name}`" for name in metrics.shown.classes)
        answer = f"the most likely of the classes {names}"
    rows = [
        (
            name_of(name),
            f"{model.all.score:.3f}",
            " to ".join(f"{end:.3f}" for end in model.all.interval or ()) or "not measured",
        )
        for name, model in metrics.models.items()
    ]
    return card(
        ModelCardData(
            license="other",
            library_name="transformers",
            pipeline_tag="text-classification",
            tags=[metrics.task, family],
        ),
        f"# {metrics.run}, fine-tuned",
        f"A {family} model for {metrics.task} of texts, fine-tuned on "
        f"{metrics.parts['all'].examples:,} examples in {len(metrics.models['pretrained'].folds)} "
        f"folds; these are the weights of fold {metrics.best_fold}, the best.",
        "## Use",
        "```python\nfrom transformers import pipeline\n\n"
        'predict = pipeline("text-classification", model="path/to/this/directory")\n'
        'predict("The text to judge.", truncation=True)\n```',
        f"It gives {answer}. {NEEDED_PACKAGES}",
        "## Evaluation",
        f"On the held-out examples of all folds, with {metrics.confidence:.0%} intervals.",
        card_table(["model", metrics.score, "interval"], rows),
    )
