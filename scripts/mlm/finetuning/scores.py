"""How good predictions are: root mean squared error, or accuracy and macro F1."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlm.finetuning.examples import Example


@dataclass(frozen=True)
class Score:
    """`loss` as it is trained (squared error, or nats), `score` as it is reported."""

    loss: float
    score: float


def classes_of(examples: Sequence[Example], task: str) -> list[str]:
    """The classes in order of their names; none for a regression."""
    return sorted({e.target for e in examples}) if task == "classification" else []


def score(task: str, logits: np.ndarray, targets: np.ndarray) -> Score:
    """Of `logits` float [examples, outputs] against `targets` [examples]."""
    logits, targets = np.asarray(logits, np.float64), np.asarray(targets, np.float64)
    if task == "regression":
        squared = float(np.mean((logits[:, 0] - targets) ** 2))
        return Score(squared, squared**0.5)
    classes = targets.astype(np.int64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    surprise = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(classes)), classes]
    return Score(float(surprise.mean()), float(np.mean(logits.argmax(axis=1) == classes)))


def macro_f1(predictions: Sequence[str], targets: Sequence[str]) -> float:
    """The mean over the classes of the targets of 2 TP / (2 TP + FP + FN)."""
    predictions, targets = np.array(predictions), np.array(targets)
    found = []
    for name in sorted(set(targets)):
        asked, given = targets == name, predictions == name
        found.append(2 * np.sum(asked & given) / (np.sum(asked) + np.sum(given)))
    return float(np.mean(found))
