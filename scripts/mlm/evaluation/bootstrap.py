"""Confidence intervals for means over predictions, by resampling whole groups.

Predictions in one group (a speech, an article) share their author and subject, so they are not
independent draws: groups are (the cluster bootstrap; Field and Welsh, "Bootstrapping clustered
data", Journal of the Royal Statistical Society B 69, 2007; Efron and Tibshirani, "An Introduction
to the Bootstrap", 1993, chapters 8 and 13). A mean over predictions is then a ratio of two sums
over groups, and both are resampled together.
"""

from dataclasses import dataclass

import numpy as np

from mlm.evaluation.artefacts import Interval

#: Draws held in memory at a time.
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Resampling:
    """Of a bootstrap: how many resamples, the confidence of its intervals, and its key."""

    resamples: int
    confidence: float
    seed: int

    def means(self, unit: np.ndarray, *figures: np.ndarray, text: int = 0) -> np.ndarray:
        """Resampled means of `figures` [predictions] by `unit` [predictions], float64 [resamples,
        figures]; those of another `text` are drawn independently."""
        totals, counts = sums_by_unit(unit, *figures)
        return resampled_means(totals, counts, self.resamples, self.seed + (text << 64))

    def interval(self, means: np.ndarray) -> Interval | None:
        """The `interval` of `means` [resamples]."""
        return interval(means, self.confidence)


def resampled_means(
    totals: np.ndarray, counts: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """Means over predictions in `resamples` bootstrap samples: float64 [resamples, figures].

    `totals` [groups, figures] are sums over each group's predictions and `counts` [groups] their
    number; groups without one are left out. One group alone cannot be resampled: all are then NaN.
    Calls with the same seed and counts draw the same groups, so that differences pair.
    """
    totals = np.asarray(totals, np.float64)
    kept = np.asarray(counts) > 0
    table = np.column_stack([totals[kept], np.asarray(counts, np.float64)[kept]])
    size = len(table)
    if size < 2:
        return np.full((resamples, totals.shape[1]), np.nan)
    generator = np.random.Generator(np.random.Philox(key=seed))
    means = np.empty((resamples, totals.shape[1]))
    block = max(1, _BLOCK // size)
    for start in range(0, resamples, block):
        for row, draws in enumerate(
            generator.integers(0, size, (min(block, resamples - start), size)), start
        ):
            sums = np.bincount(draws, minlength=size) @ table
            means[row] = sums[:-1] / sums[-1]
    return means


def interval(means: np.ndarray, confidence: float) -> Interval | None:
    """The percentile interval of resampled means [resamples] that holds `confidence`; None if they
    are NaN."""
    if np.isnan(means).any():
        return None
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def bundled(table: np.ndarray, most: int) -> np.ndarray:
    """The rows of `table` [groups, …], neighbours added up if there are more than `most`: bundles
    of whole groups are independent draws as well."""
    if len(table) <= most:
        return table
    return np.add.reduceat(table, np.arange(most) * len(table) // most)


def sums_by_unit(unit: np.ndarray, *figures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Totals [units, figures] of `figures` [predictions] and counts [units] by the group or sample
    `unit` [predictions], in ascending order."""
    index = np.unique(unit, return_inverse=True)[1]
    totals = [np.bincount(index, weights=np.asarray(f, np.float64)) for f in figures]
    return np.column_stack(totals), np.bincount(index)
