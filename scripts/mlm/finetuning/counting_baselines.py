"""What counting achieves, without any pretraining: TF-IDF and ridge regression, and of tagged words
the most frequent tag.

Terms are words, pairs of words and runs of characters, each kind weighted (1 + log count) *
(log((1 + n) / (1 + documents)) + 1) and scaled to length one (Salton and Buckley, 1988, with
smoothed inverse frequencies); then linear least squares with an L2 penalty, classes as one
regression each on 0 and 1. The penalty is the one that best predicts a validation part of the
training texts.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.linalg import solve

from mlm.finetuning.artefacts import (
    BaselineRecord,
    Example,
    Predictions,
    classes_of,
    read_examples,
    texts_of,
    write_predictions,
)
from mlm.finetuning.fold_assignment import validation_part

_WORD = re.compile(r"\w+|[^\w\s]")
#: Lengths of the runs of characters; as scikit-learn's "char_wb", they stay within a word.
_CHARACTERS = range(2, 6)
#: L2 penalties of which each fold chooses one.
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
#: Characters of the longest suffix whose tags are counted.
_SUFFIX = 4


def write_baseline(
    table: str | Path, predictions: str | Path, record: str | Path, task: str, folds: int
) -> None:
    """Predict every example of `table` by counting on the other folds."""
    examples, penalties = read_examples(table), []
    if task == "token_classification":
        rows = predict_tags(examples, folds)
    else:
        rows, penalties = predict_by_ridge(examples, task, folds)
    write_predictions(predictions, rows)
    BaselineRecord(penalties).write(record)


def predict_tags(examples: Sequence[Example], folds: int) -> Predictions:
    """Predict each word's tag by the other folds: the most frequent of the word, or else of its
    longest known suffix, or else of all words."""
    predictions = {}
    for fold in range(folds):
        counts: dict[str, Counter] = defaultdict(Counter)
        for example in (e for e in examples if e.fold != fold):
            tags = example.target.split(" ")
            for word, tag in zip(example.excerpt.split("\t"), tags, strict=True):
                for key in _keys(word):
                    counts[key][tag] += 1
        best = {key: min(c, key=lambda tag: (-c[tag], tag)) for key, c in counts.items()}
        for example in (e for e in examples if e.fold == fold):
            words = example.excerpt.split("\t")
            tags = (next(best[key] for key in _keys(word) if key in best) for word in words)
            predictions[example.id] = " ".join(tags)
    return predictions


def _keys(word: str) -> list[str]:
    """The word, then its suffixes from the longest, the empty one last."""
    longest = min(_SUFFIX, len(word))
    return [f"word {word}", *(word[len(word) - n :] for n in range(longest, -1, -1))]


def predict_by_ridge(
    examples: Sequence[Example], task: str, folds: int
) -> tuple[Predictions, list[float]]:
    """Predict the examples of each fold by a ridge regression fitted on the others; also return the
    penalty of each fold."""
    if classes := classes_of(examples, task):
        targets = np.array([[e.target == c for c in classes] for e in examples], np.float64)
    else:
        targets = np.array([[float(e.target)] for e in examples])
    fold_of, texts = np.array([e.fold for e in examples]), [e.excerpt for e in examples]
    counts = [term_counts(texts, kind) for kind in (word_terms, character_terms)]
    predicted, penalties = np.empty_like(targets), []
    for fold in range(folds):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        kernel = similarities(counts, train)
        validation = validation_part([examples[row] for row in train.tolist()], task)
        penalties.append(best_penalty(kernel[train], targets[train], validation))
        known = np.ones(len(train), bool)
        predicted[test] = ridge(kernel[test], kernel[train], targets[train], known, penalties[-1])
        print(f"TF-IDF and ridge: fold {fold + 1} of {folds}", file=sys.stderr)
    ids = (e.id for e in examples)
    return dict(zip(ids, texts_of(predicted, classes), strict=True)), penalties


def best_penalty(kernel: np.ndarray, targets: np.ndarray, validation: np.ndarray) -> float:
    """The penalty that predicts the rows of `validation`, bool [texts], best after a fit to the
    others: by the mean squared error for `targets` [texts, 1], by the share of wrong classes for
    one-hot ones; among equals the squared error decides."""

    def errors(penalty: float) -> tuple[float, float]:
        true = targets[validation]
        predicted = ridge(kernel[validation], kernel, targets, ~validation, penalty)
        wrong = np.mean(predicted.argmax(axis=1) != true.argmax(axis=1))
        return float(wrong), float(np.mean((predicted - true) ** 2))

    return min(PENALTIES, key=errors)


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
