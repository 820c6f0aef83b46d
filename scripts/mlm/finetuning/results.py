"""What a fine-tuning came to: every fold of every start together, beside the baseline."""

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from mlm.evaluation.bootstrap import Resampling
from mlm.finetuning.artefacts import ExampleData, ExamplesSummary, FoldRecord, RidgeRecord
from mlm.finetuning.examples import Example, read_examples
from mlm.finetuning.finetuning_metrics import (
    CurvePoint,
    Finetuning,
    FinetuningDigests,
    Measured,
    ModelScores,
    PartSize,
    ScoreDifference,
    ShownPredictions,
)
from mlm.finetuning.finetuning_verdicts import finetuning_verdicts
from mlm.finetuning.paired_differences import Comparison
from mlm.finetuning.scores import macro_f1
from mlm.finetuning.tables import (
    EpochRow,
    Prediction,
    history_digest,
    read_history,
    read_predictions,
    write_history,
    write_prediction_rows,
)
from mlm.foundations.atomic import replacing
from mlm.foundations.digests import file_sha256
from mlm.foundations.environment import installed_version
from mlm.foundations.errors import MlmError, remedy

#: The models that are compared: two starts of the same network, and the baseline.
STARTS = ("pretrained", "random")
BASELINE = "tfidf_ridge"
_PAIRS = (("pretrained", "random"), ("pretrained", BASELINE), ("random", BASELINE))
#: Points kept for a plot of predicted against true.
_POINTS = 600
_PACKAGES = ("jax", "jaxlib", "numpy", "optax", "scipy", "tokenizers")


@dataclass(frozen=True)
class ResultFiles:
    """What the folds left, by start in the order of the folds, and what is written."""

    examples: str
    summary: str
    ridge: str
    ridge_record: str
    predictions: dict[str, list[str]]
    histories: dict[str, list[str]]
    records: dict[str, list[str]]
    weights: list[str]
    tokenizer: list[str]
    directory: str


@dataclass(frozen=True)
class Part:
    """A part of the examples that scores are given for, by their places."""

    name: str
    places: np.ndarray


def parts_of(examples: Sequence[Example]) -> list[Part]:
    """All examples; those pretraining never trained on, and the others, where that is known."""
    split = np.array([e.split for e in examples])
    found = [Part("all", np.arange(len(examples)))]
    if (split != "").any():
        found.append(Part("unseen", np.flatnonzero((split != "train") & (split != ""))))
        found.append(Part("seen", np.flatnonzero(split == "train")))
    return [part for part in found if len(part.places)]


def figures_of(rows: Sequence[Prediction], task: str) -> np.ndarray:
    """What a score averages, float [examples, trainings]: squared errors, or 1 where the class
    is right."""
    if task == "regression":
        said = np.array([r.predictions for r in rows], np.float64)
        return (said - np.array([[float(r.target)] for r in rows])) ** 2
    return np.array([[float(p == r.target) for p in r.predictions] for r in rows])


def _rounded(measured: Measured) -> Measured:
    low, high = measured.interval
    return Measured(round(measured.score, 6), (round(low, 6), round(high, 6)))


def in_order(examples: Sequence[Example], files: Sequence[str]) -> list[Prediction]:
    """The predictions of all folds in the order of the examples, each example once.

    Raises MlmError where one is missing, or is of no example.
    """
    rows = {row.id: row for path in files for row in read_predictions(path)}
    missing = [e.id for e in examples if e.id not in rows]
    strange = sorted(rows.keys() - {e.id for e in examples})
    if missing or strange:
        problem = f"no prediction for the example {missing[0]!r}" if missing else ""
        problem = problem or f"a prediction for {strange[0]!r}, which is not an example"
        others = len(missing or strange) - 1
        problem += f" (nor for {others} more)" if missing and others else ""
        raise MlmError(f"{', '.join(map(str, files))}: {problem}. {remedy(*files)}")
    return [rows[e.id] for e in examples]


@dataclass(frozen=True)
class Found:
    """The folds together: by model its predictions, in the order of the examples."""

    examples: list[Example]
    fold_of: np.ndarray
    predictions: dict[str, list[Prediction]]
    histories: dict[str, list[list[EpochRow]]]


def read_found(files: ResultFiles) -> Found:
    """Everything that the folds and the baseline left."""
    examples, fold_of = read_examples(files.examples)
    predictions = {start: in_order(examples, files.predictions[start]) for start in STARTS}
    predictions[BASELINE] = in_order(examples, [files.ridge])
    histories = {
        start: list(map(_history, files.histories[start], files.records[start])) for start in STARTS
    }
    return Found(examples, np.array(fold_of), predictions, histories)


def _history(path: str, record: str) -> list[EpochRow]:
    """A fold's epochs. Raises MlmError where they are not those that its record tells of.

    The record has no digest of the file, which holds times.
    """
    rows = read_history(path)
    if history_digest(rows) != FoldRecord.read(record).history:
        raise MlmError(
            f"{path} is damaged: its epochs are not those that {record} tells of. {remedy(path)}"
        )
    return rows


def write_results(run: str, section: dict, seed: int, files: ResultFiles) -> None:
    """Write metrics.json, oof*.csv, history*.csv and the best fold's model."""
    found, summary = read_found(files), ExamplesSummary.read(files.summary)
    described = scores_of(found, section, seed)
    weights = Path(files.weights[described["best_fold"]])
    metrics = Finetuning(
        run=run,
        **described,
        data=ExampleData(**{f.name: getattr(summary, f.name) for f in fields(ExampleData)}),
        baseline=RidgeRecord.read(files.ridge_record).chosen,
        settings={k: v for k, v in section.items() if k not in ("data", "task", "confidence")},
        digests=FinetuningDigests(file_sha256(files.examples), file_sha256(weights)),
        packages={p: v for p in _PACKAGES if (v := installed_version(p)) is not None},
    )
    directory = Path(files.directory)
    for name, rows in found.predictions.items():
        suffix = "" if name == "pretrained" else f"_{name}"
        write_prediction_rows(directory / f"oof{suffix}.csv", rows)
    for start, histories in found.histories.items():
        suffix = "" if start == "pretrained" else f"_{start}"
        rows = [row for history in histories for row in history]
        write_history(directory / f"history{suffix}.csv", rows)
    config = weights.with_name("config.json")
    for source in [weights, config, *map(Path, files.tokenizer)]:
        with replacing(directory / "model" / source.name) as temporary:
            shutil.copyfile(source, temporary)
    metrics.write(directory / "metrics.json")


def scores_of(found: Found, section: dict, seed: int) -> dict:
    """Every model's scores and curves, the paired differences, and what they mean."""
    task, parts = section["task"], parts_of(found.examples)
    figures = {name: figures_of(rows, task) for name, rows in found.predictions.items()}
    units = np.array([e.unit for e in found.examples])
    rooted = task == "regression"
    compared = {
        part.name: Comparison(
            {name: values[part.places] for name, values in figures.items()},
            units[part.places],
            found.fold_of[part.places],
            rooted=rooted,
            how=Resampling(section["resamples"], section["confidence"], seed),
        )
        for part in parts
    }
    models = {
        name: ModelScores(
            **{part: _rounded(comparison.of(name)) for part, comparison in compared.items()},
            **_fold_scores(figures[name], found.fold_of, section["folds"], task),
            **_of_network(figures[name], found.histories[name], rooted) if name in STARTS else {},
            macro_f1=None if rooted else _macro_f1(rows),
        )
        for name, rows in found.predictions.items()
    }
    differences = [
        ScoreDifference(
            model=name,
            beside=other,
            **{part: _rounded(c.difference(name, other)) for part, c in compared.items()},
        )
        for name, other in _PAIRS
    ]
    pick = min if rooted else max
    # The model that a fold keeps is that of its first training.
    kept = figures["pretrained"][:, 0]
    folds = [kept[found.fold_of == fold].mean() for fold in range(section["folds"])]
    judged = {
        "score": "rmse" if rooted else "accuracy",
        "confidence": section["confidence"],
        "parts": {part.name: _size(part, found.examples) for part in parts},
        "differences": differences,
    }
    return judged | {
        "task": task,
        "models": models,
        "best_fold": folds.index(pick(folds)),
        "shown": _shown(found.examples, found.predictions, task),
        "verdicts": finetuning_verdicts(**judged),
    }


def _of_network(figures: np.ndarray, histories: Sequence[Sequence[EpochRow]], rooted: bool) -> dict:
    return {"seeds": _scores(figures.mean(axis=0), rooted), "curves": _curves(histories)}


def _macro_f1(rows: Sequence[Prediction]) -> float:
    true, trainings = [r.target for r in rows], zip(*(r.predictions for r in rows), strict=True)
    return round(statistics.fmean(macro_f1(said, true) for said in trainings), 6)


def _size(part: Part, examples: Sequence[Example]) -> PartSize:
    groups = {examples[i].group for i in part.places if examples[i].group}
    return PartSize(len(part.places), len(groups))


def _scores(means: np.ndarray, rooted: bool) -> list[float]:
    return [round(float(score), 6) for score in (np.sqrt(means) if rooted else means)]


def _fold_scores(figures: np.ndarray, fold_of: np.ndarray, folds: int, task: str) -> dict:
    means = np.array([figures[fold_of == fold].mean() for fold in range(folds)])
    scores = _scores(means, task == "regression")
    return {
        "folds": scores,
        "mean": round(statistics.fmean(scores), 6),
        "spread": round(statistics.stdev(scores), 6),
    }


def _curves(histories: Sequence[Sequence[EpochRow]]) -> list[CurvePoint]:
    """Means over folds and trainings by epoch, without anything that time changes."""
    rows = [row for history in histories for row in history]
    return [
        CurvePoint(
            epoch,
            *(
                round(statistics.fmean(getattr(r, key) for r in rows if r.epoch == epoch), 6)
                for key in ("train_loss", "validation_loss", "score")
            ),
        )
        for epoch in sorted({row.epoch for row in rows})
    ]


def _shown(examples: Sequence[Example], models: dict, task: str) -> ShownPredictions:
    """True and predicted values of evenly spaced examples, or counts by true and predicted class.

    From the first training of each fold.
    """
    if task == "regression":
        step = max(1, -(-len(examples) // _POINTS))
        chosen = range(0, len(examples), step)
        return ShownPredictions(
            true=[float(examples[i].target) for i in chosen],
            **{
                name: [float(rows[i].predictions[0]) for i in chosen]
                for name, rows in models.items()
            },
        )
    classes = sorted({e.target for e in examples})
    return ShownPredictions(
        classes=classes,
        **{
            name: [
                [sum(r.target == a and r.predictions[0] == b for r in rows) for b in classes]
                for a in classes
            ]
            for name, rows in models.items()
        },
    )
