"""Is one model better than another on the same examples? Paired, and by whole groups.

Errors on passages of one group go together, so that groups are resampled, the same for both
models (see `mlm.evaluation.bootstrap`); the interval is of the difference of the two scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlm.evaluation.bootstrap import interval, resampled_means, sums_by_sample


@dataclass(frozen=True)
class Measured:
    """A score with its interval."""

    score: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Bootstrap:
    """How many resamples, what share the intervals hold, and the seed."""

    resamples: int
    confidence: float
    seed: int


class Comparison:
    """Scores of several models on the same examples, and the differences between them.

    `figures` holds by model what is averaged, float [examples]: squared errors for a
    regression (the score is the root of their mean), 1 or 0 for a classification (the score
    is their mean). `units` [examples] says what is resampled together.
    """

    def __init__(
        self, figures: dict[str, np.ndarray], units: Sequence[str], rooted: bool, how: Bootstrap
    ):
        self._names = list(figures)
        self._finish = np.sqrt if rooted else np.asarray
        table = [np.asarray(figures[name], np.float64) for name in self._names]
        totals, counts = sums_by_sample(np.asarray(units), *table)
        self._scores = self._finish(totals.sum(axis=0) / counts.sum())
        self._drawn = self._finish(resampled_means(totals, counts, how.resamples, how.seed))
        self._confidence = how.confidence

    def of(self, name: str) -> Measured:
        """A model's score."""
        i = self._names.index(name)
        found = interval(self._drawn[:, i], self._confidence)
        return Measured(float(self._scores[i]), found)

    def difference(self, name: str, other: str) -> Measured:
        """How much higher the score of `name` is than that of `other`."""
        i, j = self._names.index(name), self._names.index(other)
        found = interval(self._drawn[:, i] - self._drawn[:, j], self._confidence)
        return Measured(float(self._scores[i] - self._scores[j]), found)
