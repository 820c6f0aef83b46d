"""TF-IDF and ridge regression: what counting achieves, without any pretraining.

Terms are words and pairs of words, with or without runs of characters, each kind weighted (1 + log
count) * (log((1 + n) / (1 + documents)) + 1) and scaled to length one (Salton and Buckley, 1988,
with smoothed inverse frequencies); then linear least squares with an L2 penalty, classes as one
regression each on 0 and 1. Terms and penalty are those that best predict a validation part of the
training texts.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.linalg import solve

from mlm.finetuning.artefacts import (
    BaselineChoice,
    BaselineRecord,
    Example,
    Prediction,
    classes_of,
    predictions_of,
    read_examples,
    texts_of,
    write_predictions,
)
from mlm.finetuning.splitting import validation_part
from mlm.finetuning.tagged_words import predict_tags

_WORD = re.compile(r"\w+|[^\w\s]")
#: Lengths of the runs of characters; as scikit-learn's "char_wb", they stay within a word.
_CHARACTERS = range(2, 6)
#: L2 penalties of which each fold chooses one.
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def write_baseline(
    table: str | Path, predictions: str | Path, record: str | Path, task: str, folds: int
) -> None:
    """Predict every example of `table` by counting on the other folds."""
    examples, chosen = read_examples(table), []
    if task == "token_classification":
        rows = predict_tags(examples, folds)
    else:
        rows, chosen = predict_by_ridge(examples, task, folds)
    write_predictions(predictions, rows)
    BaselineRecord(task, len(examples), chosen).write(record)


def predict_by_ridge(
    examples: Sequence[Example], task: str, folds: int
) -> tuple[list[Prediction], list[BaselineChoice]]:
    """Predict the examples of each fold by a ridge regression chosen and fitted on the others."""
    if classes := classes_of(examples, task):
        targets = np.array([[e.target == c for c in classes] for e in examples], np.float64)
    else:
        targets = np.array([[float(e.target)] for e in examples])
    fold_of = np.array([e.fold for e in examples])
    counts = [term_counts([e.excerpt for e in examples], k) for k in (word_terms, character_terms)]
    counts_by_terms = {"words": counts[:1], "words and characters": counts}
    predicted, chosen = np.empty_like(targets), []
    for fold in range(folds):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        kernels = {terms: similarities(c, train) for terms, c in counts_by_terms.items()}
        validation = validation_part([examples[row] for row in train.tolist()], task)
        known = {terms: kernel[train] for terms, kernel in kernels.items()}
        terms, penalty, error = choose(known, targets[train], validation)
        kernel, everything = kernels[terms], np.ones(len(train), bool)
        predicted[test] = ridge(kernel[test], known[terms], targets[train], everything, penalty)
        chosen.append(BaselineChoice(terms, penalty, round(error, 6), fold))
        print(f"TF-IDF and ridge: fold {fold + 1} of {folds}, {chosen[-1]}", file=sys.stderr)
    return predictions_of(examples, [texts_of(predicted, classes)]), chosen


def choose(
    kernels: dict[str, np.ndarray], targets: np.ndarray, validation: np.ndarray
) -> tuple[str, float, float]:
    """Terms, penalty and error of the best of all `kernels` and penalties on the rows of
    `validation`, bool [texts], after a fit to the others: the mean squared error for `targets`
    [texts, 1], the share of wrong classes for one-hot ones; among equals the least squared error
    decides."""
    tried, true = [], targets[validation]
    for (terms, kernel), penalty in product(kernels.items(), PENALTIES):
        predicted = ridge(kernel[validation], kernel, targets, ~validation, penalty)
        squared = float(np.mean((predicted - true) ** 2))
        wrong = float(np.mean(predicted.argmax(axis=1) != true.argmax(axis=1)))
        error = squared if targets.shape[1] == 1 else wrong
        tried.append((error, squared, (terms, penalty, error)))
    return min(tried, key=lambda t: t[:2])[2]


def ridge(
    new: np.ndarray, kernel: np.ndarray, targets: np.ndarray, known: np.ndarray, penalty: float
) -> np.ndarray:
    """Predict [new, outputs] by ridge regression in its dual form, from the similarities `new`
    [new, texts] and `kernel` [texts, texts], with the `targets` [texts, outputs] of the `known`
    texts, bool [texts]."""
    centre = targets[known].mean(axis=0)
    penalised = kernel[np.ix_(known, known)] + penalty * np.eye(known.sum())
    return new[:, known] @ solve(penalised, targets[known] - centre, assume_a="pos") + centre


def word_terms(text: str) -> Counter:
    """Counts of the words of `text`, in lower case, and of its pairs of neighbours."""
    words = _WORD.findall(text.lower())
    return Counter(words) + Counter(f"{a} {b}" for a, b in pairwise(words))


def character_terms(text: str) -> Counter:
    """Counts of the runs of 2 to 5 characters in the words of `text`, edges as blanks."""
    return Counter(
        word[i : i + length]
        for word in (f" {word} " for word in text.lower().split())
        for length in _CHARACTERS
        for i in range(len(word) - length + 1)
    )


def term_counts(texts: Sequence[str], terms_of: Callable[[str], Counter]) -> sparse.csr_matrix:
    """How often each text holds each term: float64 [texts, terms], terms in order."""
    counted = [terms_of(text) for text in texts]
    column = {term: i for i, term in enumerate(sorted(set().union(*counted)))}
    columns = [column[term] for counts in counted for term in counts]
    values = np.array([n for counts in counted for n in counts.values()], np.float64)
    ends = np.cumsum([0, *map(len, counted)])
    table = sparse.csr_matrix((values, columns, ends), shape=(len(texts), len(column)))
    table.sort_indices()
    return table


def tf_idf(counts: sparse.csr_matrix, train: np.ndarray) -> sparse.csr_matrix:
    """Vectors [texts, terms], of length 1 or 0, over terms of at least two of the `train` texts."""
    documents = counts[train].getnnz(axis=0)
    known = documents > 1
    vectors = counts[:, known]
    vectors.data = 1 + np.log(vectors.data)
    vectors = vectors @ sparse.diags_array(np.log((1 + len(train)) / (1 + documents[known])) + 1)
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel())
    return (sparse.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ vectors).tocsr()


def similarities(counts: Sequence[sparse.csr_matrix], train: np.ndarray) -> np.ndarray:
    """Mean inner products over the kinds of terms: float64 [texts, train]."""
    vectors = [tf_idf(c, train) for c in counts]
    return np.mean([(v @ v[train].T).toarray() for v in vectors], axis=0)
