"""TF-IDF and ridge regression: what counting achieves, without any pretraining.

Terms are words and pairs of words, with or without runs of characters, each kind weighted (1 + log
count) * (log((1 + n) / (1 + documents)) + 1) and scaled to length one (Salton and Buckley, 1988,
with smoothed inverse frequencies); then linear least squares with an L2 penalty, classes as one
regression each on 0 and 1. Terms and penalty are those that best
predict left-out groups.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.linalg import inv, solve

from mlm.finetuning.artefacts import RidgeChoice, RidgeRecord
from mlm.finetuning.tables import Example, Prediction, classes_of, read_rows, write_predictions

_WORD = re.compile(r"\w+|[^\w\s]")
#: Lengths of the runs of characters; as scikit-learn's "char_wb", they stay within a word.
_CHARACTERS = range(2, 6)
#: Training texts that terms and penalty are chosen on at most: the work grows with the cube.
SEARCHED = 4000
#: L2 penalties of which each fold chooses one.
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def write_ridge_predictions(
    table: str | Path,
    predictions: str | Path,
    record: str | Path,
    task: str,
    folds: int,
    penalties: Sequence[float] = PENALTIES,
) -> None:
    """Predict every example of `table` by a ridge regression on the other folds, on which alone
    terms and penalty are chosen (nested cross-validation; Varma and Simon, 2006)."""
    examples = read_rows(table, Example)
    if classes := classes_of(examples, task):
        targets = np.array([[e.target == c for c in classes] for e in examples], np.float64)
    else:
        targets = np.array([[float(e.target)] for e in examples])
    groups = np.unique([e.unit for e in examples], return_inverse=True)[1]
    fold_of = np.array([e.fold for e in examples])
    texts = [e.excerpt for e in examples]
    words, characters = term_counts(texts, word_terms), term_counts(texts, character_terms)
    terms_by_name = {"words": [words], "words and characters": [words, characters]}
    rows, chosen = {}, []
    for fold in range(folds):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        kernels = {name: similarities(terms, train) for name, terms in terms_by_name.items()}
        known = {name: kernel[train] for name, kernel in kernels.items()}
        terms, penalty, error = choose(known, targets[train], groups[train], penalties)
        centre, kernel = targets[train].mean(axis=0), kernels[terms]
        weights = fitted(kernel[train], targets[train] - centre, penalty)
        for i, row in zip(test.tolist(), kernel[test] @ weights + centre, strict=True):
            said = classes[int(row.argmax())] if classes else f"{row[0]:.6f}"
            rows[i] = Prediction(examples[i].id, fold, examples[i].target, (said,))
        chosen.append(RidgeChoice(terms, penalty, round(error, 6), fold))
        told = f"TF-IDF and ridge: fold {fold + 1} of {folds}, {terms}, penalty {penalty:g}"
        print(told, file=sys.stderr)
    write_predictions(predictions, [rows[i] for i in range(len(examples))])
    RidgeRecord(task, len(examples), list(penalties), chosen).write(record)


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
    """Vectors [texts, terms], of length one or zero, over the terms that at least two of the
    `train` texts hold."""
    documents = np.bincount(counts[train].indices, minlength=counts.shape[1])
    known = documents > 1
    vectors = counts[:, known]
    vectors.data = 1 + np.log(vectors.data)
    vectors = vectors @ sparse.diags_array(np.log((1 + len(train)) / (1 + documents[known])) + 1)
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel())
    return (sparse.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ vectors).tocsr()


def similarities(counted: Sequence[sparse.csr_matrix], train: np.ndarray) -> np.ndarray:
    """Mean inner products of all texts with the `train` texts over the kinds of terms:
    float64 [texts, known]."""
    vectors = [tf_idf(counts, train) for counts in counted]
    return sum((v @ v[train].T).toarray() for v in vectors) / len(vectors)


def fitted(kernel: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    """Weights [known, outputs] of ridge regression in its dual form, from the `kernel` [known,
    known]."""
    return solve(kernel + penalty * np.eye(len(kernel)), targets, assume_a="pos")


def left_out(
    kernel: np.ndarray, targets: np.ndarray, groups: np.ndarray, penalty: float
) -> np.ndarray:
    """The prediction [known, outputs] for each text by a fit without its group (An, Liu and
    Venkatesh, 2007, "Fast cross-validation algorithms for least squares support vector machine and
    kernel ridge regression"). `targets` [known, outputs] are centred."""
    inverse = inv(kernel + penalty * np.eye(len(kernel)), assume_a="pos", overwrite_a=True)
    weights = inverse @ targets
    predicted = np.empty_like(targets)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        residuals = np.linalg.solve(inverse[np.ix_(rows, rows)], weights[rows])
        predicted[rows] = targets[rows] - residuals
    return predicted


def choose(
    kernels: dict[str, np.ndarray],
    targets: np.ndarray,
    groups: np.ndarray,
    penalties: Sequence[float],
) -> tuple[str, float, float]:
    """Terms, penalty and error of the best of all `kernels` and penalties, by groups left out: the
    mean squared error for `targets` [known, 1], the share of wrong classes for one-hot ones; among
    equals the least squared error decides."""
    rows, tried = searched(groups), []
    centre, known = targets[rows].mean(axis=0), targets[rows]
    for terms, kernel in kernels.items():
        part = kernel[np.ix_(rows, rows)]
        for penalty in penalties:
            said = left_out(part, known - centre, groups[rows], penalty) + centre
            squared = float(np.mean((said - known) ** 2))
            wrong = float(np.mean(said.argmax(axis=1) != known.argmax(axis=1)))
            error = squared if targets.shape[1] == 1 else wrong
            tried.append((error, squared, (terms, penalty, error)))
    return min(tried, key=lambda found: found[:2])[2]


def searched(groups: np.ndarray) -> np.ndarray:
    """Places of whole groups, drawn until they would hold more than SEARCHED texts."""
    names, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    drawn = np.random.Generator(np.random.Philox(key=0)).permutation(len(names))
    kept = drawn[np.cumsum(sizes[drawn]) <= SEARCHED]
    return np.flatnonzero(np.isin(group, kept if len(kept) else drawn[:1]))
