"""What a fine-tuning came to: every fold of every start together, beside the baseline."""

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.atomic import read_json, replacing, write_json
from mlm.digests import file_sha256
from mlm.examples import Example, read_examples
from mlm.finetuning_files import (
    EpochRow,
    Prediction,
    read_history,
    read_predictions,
    write_history,
    write_prediction_rows,
)
from mlm.finetuning_scores import macro_f1
from mlm.finetuning_words import finetuning_verdicts
from mlm.paired_differences import Bootstrap, Comparison, Measured

FORMAT_VERSION = 1
#: The models that are compared: two starts of the same network, and the baseline.
STARTS = ("pretrained", "random")
BASELINE = "tfidf_ridge"
#: Points kept for a plot of predicted against true.
_POINTS = 600


@dataclass(frozen=True)
class ResultFiles:
    """What the folds left, by start in the order of the folds, and what is written."""

    examples: str
    summary: str
    ridge: str
    predictions: dict[str, list[str]]
    histories: dict[str, list[str]]
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
    """What a score averages: squared errors, or 1 where the class is right."""
    if task == "regression":
        return np.array([(float(r.prediction) - float(r.target)) ** 2 for r in rows])
    return np.array([float(r.prediction == r.target) for r in rows])


def _rounded(measured: Measured) -> dict:
    return {
        "score": round(measured.score, 6),
        "interval": [round(x, 6) for x in measured.interval],
    }


def in_order(examples: Sequence[Example], files: Sequence[str]) -> list[Prediction]:
    """The predictions of all folds in the order of the examples, each example once."""
    rows = {row.id: row for path in files for row in read_predictions(path)}
    return [rows[e.id] for e in examples]


def write_results(run: str, section: dict, seed: int, files: ResultFiles) -> None:
    """Write metrics.json, oof*.csv, history.csv and the best fold's model."""
    task = section["task"]
    examples, fold_of = read_examples(files.examples)
    models = {start: in_order(examples, files.predictions[start]) for start in STARTS}
    models[BASELINE] = in_order(examples, [files.ridge])
    figures = {name: figures_of(rows, task) for name, rows in models.items()}
    histories = {s: [read_history(path) for path in files.histories[s]] for s in STARTS}
    how = Bootstrap(section["resamples"], section["confidence"], seed)
    units = np.array([e.unit for e in examples])
    parts = parts_of(examples)
    compared = {
        part.name: Comparison(
            {name: found[part.places] for name, found in figures.items()},
            units[part.places],
            rooted=task == "regression",
            how=how,
        )
        for part in parts
    }
    fold_of = np.array(fold_of)
    described = {}
    for name, rows in models.items():
        scores = _fold_scores(figures[name], fold_of, section["folds"], task)
        described[name] = {
            "folds": [round(x, 6) for x in scores],
            "mean": round(statistics.fmean(scores), 6),
            "spread": round(statistics.stdev(scores), 6),
            **{part.name: _rounded(compared[part.name].of(name)) for part in parts},
        }
        if task == "classification":
            said, true = [r.prediction for r in rows], [r.target for r in rows]
            described[name]["macro_f1"] = round(macro_f1(said, true), 6)
        if name in STARTS:
            described[name]["curves"] = _curves(histories[name])
    differences = [
        {"model": name, "beside": other}
        | {part.name: _rounded(compared[part.name].difference(name, other)) for part in parts}
        for name, other in (
            ("pretrained", "random"),
            ("pretrained", BASELINE),
            ("random", BASELINE),
        )
    ]
    best = _best_fold(described["pretrained"]["folds"], task)
    metrics = {
        "format_version": FORMAT_VERSION,
        "run": run,
        "task": task,
        "score": "rmse" if task == "regression" else "accuracy",
        "confidence": section["confidence"],
        "data": {k: v for k, v in read_json(files.summary).items() if k != "format_version"},
        "parts": {
            part.name: {
                "examples": len(part.places),
                "groups": len({examples[i].group for i in part.places if examples[i].group}),
            }
            for part in parts
        },
        "models": described,
        "differences": differences,
        "best_fold": best,
        "shown": _shown(examples, models, task),
        "settings": {k: v for k, v in section.items() if k not in ("data", "task", "confidence")},
        "digests": {"examples": file_sha256(files.examples)},
    }
    metrics["verdicts"] = finetuning_verdicts(metrics)
    directory = Path(files.directory)
    for name, rows in models.items():
        suffix = "" if name == "pretrained" else f"_{name}"
        write_prediction_rows(directory / f"oof{suffix}.csv", rows)
    for start in STARTS:
        suffix = "" if start == "pretrained" else f"_{start}"
        rows = [row for history in histories[start] for row in history]
        write_history(directory / f"history{suffix}.csv", rows)
    _copy_model(Path(files.weights[best]).parent, files.tokenizer, directory / "model")
    write_json(directory / "metrics.json", metrics)


def _fold_scores(figures: np.ndarray, fold_of: np.ndarray, folds: int, task: str) -> list[float]:
    means = [float(figures[fold_of == fold].mean()) for fold in range(folds)]
    return [m**0.5 for m in means] if task == "regression" else means


def _best_fold(scores: Sequence[float], task: str) -> int:
    pick = min if task == "regression" else max
    return scores.index(pick(scores))


def _curves(histories: Sequence[Sequence[EpochRow]]) -> list[dict]:
    """Means over the folds by epoch, without anything that time changes."""
    return [
        {"epoch": rows[0].epoch}
        | {
            key: round(statistics.fmean(getattr(row, key) for row in rows), 6)
            for key in ("train_loss", "validation_loss", "score")
        }
        for rows in zip(*histories, strict=True)
    ]


def _shown(examples: Sequence[Example], models: dict, task: str) -> dict:
    """True and predicted of an even choice of examples; or counts by true and said class."""
    if task == "regression":
        step = max(1, -(-len(examples) // _POINTS))
        chosen = range(0, len(examples), step)
        return {
            "true": [float(examples[i].target) for i in chosen],
            **{name: [float(rows[i].prediction) for i in chosen] for name, rows in models.items()},
        }
    classes = sorted({e.target for e in examples})
    return {
        "classes": classes,
        **{
            name: [
                [sum(r.target == a and r.prediction == b for r in rows) for b in classes]
                for a in classes
            ]
            for name, rows in models.items()
        },
    }


def _copy_model(fold: Path, tokenizer: Sequence[str], place: Path) -> None:
    for source in [fold / "model.safetensors", fold / "config.json", *map(Path, tokenizer)]:
        with replacing(place / source.name) as temporary:
            shutil.copyfile(source, temporary)
