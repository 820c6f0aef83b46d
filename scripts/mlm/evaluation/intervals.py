"""Confidence intervals of 95 % for means over predictions, by the jackknife over whole clusters.

Predictions in one cluster (an author's texts, a speech) resemble each other, so that clusters are
the independent draws. A mean over predictions is a ratio of two sums over clusters. Its variance is
estimated from the ratios without each cluster in turn (Efron and Stein, "The jackknife estimate of
variance", 1981), and its interval has quantiles of Student's t with one degree of freedom less than
there are clusters; with few or unequal clusters, these cover the truth more often than a bootstrap
(MacKinnon, Nielsen and Webb, "Fast and reliable jackknife and bootstrap methods for
cluster-robust inference", 2023). No random number is drawn.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from mlm.evaluation.artefacts import Difference, Interval

#: The probability with which an interval covers the truth.
CONFIDENCE = 0.95
Statistic = Callable[[np.ndarray], np.ndarray]


def ratio(sums: np.ndarray) -> np.ndarray:
    """The first of the sums [..., 2] over the last: a mean over predictions."""
    return sums[..., 0] / sums[..., -1]


def bits_of(sums: np.ndarray) -> np.ndarray:
    """Bits per character, of sums [..., 4]: loss in nats, tokens, characters and predictions."""
    loss, tokens, characters, predictions = np.moveaxis(sums, -1, 0)
    return loss / math.log(2) / predictions * tokens / characters


@dataclass(frozen=True)
class Estimate:
    """A statistic of sums over clusters, its variance, and its degrees of freedom (0: unknown)."""

    value: float
    variance: float
    freedom: float

    @classmethod
    def of(cls, table: np.ndarray, statistic: Statistic = ratio) -> Self:
        """Estimate the `statistic` of the column sums of `table` [clusters, sums], the last column
        a count; clusters that count nothing are left out."""
        table = np.asarray(table, np.float64)
        table = table[table[:, -1] > 0]
        sums, clusters = table.sum(axis=0), len(table)
        value = float(statistic(sums))
        if clusters < 2:
            return cls(value, 0.0, 0.0)
        without_one = statistic(sums - table)
        squares = np.sum((without_one - without_one.mean()) ** 2)
        return cls(value, float(squares * (clusters - 1) / clusters), clusters - 1.0)

    def __sub__(self, other: Self) -> Self:
        """The difference of estimates from independent texts (Welch and Satterthwaite)."""
        variance, freedom = self.variance + other.variance, min(self.freedom, other.freedom)
        if freedom and variance:
            parts = self.variance**2 / self.freedom + other.variance**2 / other.freedom
            freedom = variance**2 / parts
        return type(self)(self.value - other.value, variance, freedom)

    def __mul__(self, factor: float) -> Self:
        """The estimate in other units."""
        return type(self)(self.value * factor, self.variance * factor**2, self.freedom)

    @property
    def interval(self) -> Interval | None:
        """The interval; None of a single cluster."""
        from scipy.special import stdtrit

        if not self.freedom:
            return None
        reach = float(stdtrit(self.freedom, (1 + CONFIDENCE) / 2)) * self.variance**0.5
        return self.value - reach, self.value + reach

    @property
    def share_interval(self) -> Interval | None:
        """The interval of a share, which is from 0 to 1."""
        ends = self.interval
        return ends and (max(ends[0], 0.0), min(ends[1], 1.0))

    @property
    def difference(self) -> Difference:
        """The estimate as an artefact's difference."""
        return Difference(self.value, self.interval)


class Clusters:
    """What an interval resamples: authors if the corpus names them, else groups, else samples, as
    `by` says."""

    def __init__(
        self,
        samples: np.ndarray,
        groups: np.ndarray,
        group_by: str | None,
        author_of: Mapping[int, int] | None,
    ):
        """Authors if the predictions, of `samples` and `groups`, have two or more, else groups if
        they do, else samples; `group_by` names the groups, `author_of` the author of each."""
        self._author_of, several = author_of, len(np.unique(groups)) > 1
        authors = self.of_groups(groups)
        if author_of is not None and len(np.unique(authors)) > 1:
            self.by, self.of_predictions = "president", authors
            return
        self._author_of, self.by, self.of_predictions = None, "sample", samples
        if group_by is not None and several:
            self.by, self.of_predictions = group_by, groups

    def of_groups(self, groups: np.ndarray) -> np.ndarray:
        """The cluster of each of `groups`, by their ids."""
        if self._author_of is None:
            return groups
        known, index = np.unique(groups, return_inverse=True)
        return np.array([self._author_of[group] for group in known.tolist()])[index]


def sums_by_cluster(cluster: np.ndarray, *figures: np.ndarray) -> np.ndarray:
    """Sums [clusters, figures + 1] of `figures` [predictions] by `cluster` [predictions], in
    ascending order; the last column is the number of predictions."""
    index = np.unique(cluster, return_inverse=True)[1]
    sums = [np.bincount(index, weights=np.asarray(f, np.float64)) for f in figures]
    return np.column_stack([*sums, np.bincount(index)])


def mean_of(cluster: np.ndarray, figure: np.ndarray) -> Estimate:
    """Estimate the mean of `figure` [predictions] by `cluster` [predictions]."""
    return Estimate.of(sums_by_cluster(cluster, figure))
