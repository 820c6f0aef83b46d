"""TF-IDF and ridge regression: what counting words achieves, without any pretraining.

Words and pairs of words, weighted (1 + log count) * (log((1 + n) / (1 + documents)) + 1) and
scaled to length one (Salton and Buckley, 1988, with smoothed inverse frequencies); then linear
least squares with an L2 penalty, classes as one regression each on 0 and 1.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

_WORD = re.compile(r"\w+|[^\w\s]")


def terms(text: str) -> Counter:
    """Counts of the words of `text`, in lower case, and of its pairs of neighbours."""
    words = _WORD.findall(text.lower())
    return Counter(words) + Counter(f"{a} {b}" for a, b in pairwise(words))


class TfIdf:
    """Vectors of texts over the terms that at least two of the fitted texts hold."""

    def __init__(self, counted: Sequence[Counter]):
        documents = Counter(term for counts in counted for term in counts)
        kept = sorted(term for term, number in documents.items() if number > 1)
        self._column = {term: i for i, term in enumerate(kept)}
        frequency = np.array([documents[term] for term in kept], np.float64)
        self._weight = np.log((1 + len(counted)) / (1 + frequency)) + 1

    def vectors(self, counted: Sequence[Counter]) -> sparse.csr_matrix:
        """float64 [texts, terms], each row of length one (or zero, without a known term)."""
        values, columns, ends = [], [], [0]
        for counts in counted:
            known = sorted((self._column[t], n) for t, n in counts.items() if t in self._column)
            row = np.array([1 + np.log(n) for _, n in known])
            row = row * self._weight[[c for c, _ in known]] if known else row
            values.append(row / np.sqrt(row @ row) if known else row)
            columns += [c for c, _ in known]
            ends.append(len(columns))
        shape = (len(counted), len(self._column))
        return sparse.csr_matrix((np.concatenate(values), columns, ends), shape=shape)


def ridge_predictions(
    train: Sequence[Counter], targets: np.ndarray, test: Sequence[Counter], penalty: float
) -> np.ndarray:
    """Predictions float64 [texts, outputs] for `test`, from `targets` [texts, outputs].

    Solved in its dual form, a system of one equation for each training text.
    """
    vectorizer = TfIdf(train)
    known, asked = vectorizer.vectors(train), vectorizer.vectors(test)
    centre = targets.mean(axis=0)
    kernel = (known @ known.T).toarray()
    kernel[np.diag_indices_from(kernel)] += penalty
    weights = cho_solve(cho_factor(kernel, overwrite_a=True), targets - centre)
    return (asked @ known.T) @ weights + centre
