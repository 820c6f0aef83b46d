"""The counting baseline on the folds of a fine-tuning, tuned inside each training part."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.finetuning.artefacts import RidgeChoice, RidgeRecord
from mlm.finetuning.examples import read_examples
from mlm.finetuning.ridge_baseline import TERMS, choose, fitted, similarities, term_counts
from mlm.finetuning.scores import classes_of
from mlm.finetuning.tables import Prediction, write_prediction_rows


@dataclass(frozen=True)
class RidgeFiles:
    """The table of the examples, and what is written: the predictions, and how they came."""

    table: str | Path
    predictions: str | Path
    record: str | Path


def write_ridge_predictions(
    files: RidgeFiles, task: str, folds: int, penalties: Sequence[float]
) -> None:
    """Predict every example by a ridge regression on the other folds.

    Terms and penalty are chosen on those other folds alone (nested cross-validation; Varma and
    Simon, 2006), so that the held-out fold has no say in them.
    """
    examples, fold_of = read_examples(files.table)
    classes = classes_of(examples, task)
    if classes:
        targets = np.array([[e.target == c for c in classes] for e in examples], np.float64)
    else:
        targets = np.array([[float(e.target)] for e in examples])
    groups = np.unique([e.unit for e in examples], return_inverse=True)[1]
    texts = [e.excerpt for e in examples]
    counted = {kind: term_counts(texts, kind) for kinds in TERMS.values() for kind in kinds}
    said, chosen = [""] * len(examples), []
    for fold in range(folds):
        held_out = np.array(fold_of) == fold
        train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        kernels = {
            terms: similarities([counted[kind] for kind in kinds], train)
            for terms, kinds in TERMS.items()
        }
        choice = choose(
            {terms: kernel[train] for terms, kernel in kernels.items()},
            targets[train],
            groups[train],
            penalties,
        )
        centre, kernel = targets[train].mean(axis=0), kernels[choice.terms]
        weights = fitted(kernel[train], targets[train] - centre, choice.penalty)
        for i, row in zip(test, kernel[test] @ weights + centre, strict=True):
            said[i] = classes[int(row.argmax())] if classes else f"{row[0]:.6f}"
        error = round(choice.error, 6)
        chosen.append(RidgeChoice(choice.terms, choice.penalty, error, fold))
        print(
            f"TF-IDF and ridge: fold {fold + 1} of {folds}, {choice.terms}, "
            f"penalty {choice.penalty:g}",
            file=sys.stderr,
        )
    rows = [Prediction(e.id, fold_of[i], e.target, (said[i],)) for i, e in enumerate(examples)]
    write_prediction_rows(files.predictions, rows)
    RidgeRecord(task, len(examples), list(penalties), chosen).write(files.record)
