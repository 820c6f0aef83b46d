"""The counting baseline on the folds of a fine-tuning."""

import sys
from pathlib import Path

import numpy as np

from mlm.finetuning.examples import read_examples
from mlm.finetuning.files import Prediction, write_prediction_rows
from mlm.finetuning.ridge_baseline import ridge_predictions, terms
from mlm.finetuning.scores import classes_of


def write_ridge_predictions(
    table: str | Path, task: str, folds: int, penalty: float, output: str | Path
) -> None:
    """Predict every example of `table` by a ridge regression on the other folds."""
    examples, fold_of = read_examples(table)
    classes = classes_of(examples, task)
    if classes:
        targets = np.array([[e.target == c for c in classes] for e in examples], np.float64)
    else:
        targets = np.array([[float(e.target)] for e in examples])
    counted = [terms(e.excerpt) for e in examples]
    said = [""] * len(examples)
    for fold in range(folds):
        train = [i for i, f in enumerate(fold_of) if f != fold]
        test = [i for i, f in enumerate(fold_of) if f == fold]
        found = ridge_predictions(
            [counted[i] for i in train], targets[train], [counted[i] for i in test], penalty
        )
        for i, row in zip(test, found, strict=True):
            said[i] = classes[int(row.argmax())] if classes else f"{row[0]:.6f}"
        print(f"TF-IDF and ridge: fold {fold + 1} of {folds} done", file=sys.stderr)
    rows = [Prediction(e.id, fold_of[i], e.target, said[i]) for i, e in enumerate(examples)]
    write_prediction_rows(output, rows)
