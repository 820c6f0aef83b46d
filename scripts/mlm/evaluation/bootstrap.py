"""Confidence intervals for means over predictions, by resampling whole groups.

Predictions in one group (a speech, an article) share their author, their subject and often their
context, so they are not independent draws: groups are (the cluster bootstrap; Field and Welsh,
"Bootstrapping clustered data", Journal of the Royal Statistical Society B 69, 2007; Efron and
Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 8 and 13). A mean over predictions
is then a ratio of two sums over groups, and both are resampled together. A prediction counts for
the group of its own document, even if one sample holds documents of several groups.
"""

from dataclasses import dataclass

import numpy as np

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
        totals, counts = sums_by_sample(unit, *figures)
        return resampled_means(totals, counts, self.resamples, self.seed + (text << 64))

    def interval(self, means: np.ndarray) -> tuple[float, float]:
        """The `interval` of `means` [resamples]."""
        return interval(means, self.confidence)


def resampled_means(
    totals: np.ndarray, counts: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """Means over predictions in `resamples` bootstrap samples: float64 [resamples, figures].

    `totals` [groups, figures] are sums over each group's predictions and `counts` [groups]
    their number. Groups without a prediction are left out. The draws come from
    a Philox generator keyed with `seed`: the same arguments give the same result, and two
    calls with the same seed and counts draw the same groups, so that differences pair.
    """
    totals = np.asarray(totals, np.float64)
    kept = np.asarray(counts) > 0
    table = np.column_stack([totals[kept], np.asarray(counts, np.float64)[kept]])
    size = len(table)
    if size == 0:
        return np.full((resamples, totals.shape[1]), np.nan)
    generator = np.random.Generator(np.random.Philox(key=seed))
    means = np.empty((resamples, totals.shape[1]))
    block = max(1, _BLOCK // size)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        draws = generator.integers(0, size, (rows, size))
        for row in range(rows):
            times = np.bincount(draws[row], minlength=size)
            sums = times @ table
            means[start + row] = sums[:-1] / sums[-1]
    return means


def interval(means: np.ndarray, confidence: float) -> tuple[float, float]:
    """The percentile interval of resampled means [resamples] that holds `confidence`."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def bundled(table: np.ndarray, most: int) -> np.ndarray:
    """The rows of `table` [groups, …], neighbours added up if there are more than `most`.

    Bundles of whole groups are independent draws as well, so intervals can resample them.
    """
    if len(table) <= most:
        return table
    return np.add.reduceat(table, np.arange(most) * len(table) // most)


def sums_by_sample(sample: np.ndarray, *figures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Totals [units, figures] and counts [units] by unit, in ascending order.

    `sample` [predictions] is the unit (group or sample) of each prediction; each of `figures`
    [predictions] is added up.
    """
    if len(sample) == 0:
        return np.zeros((0, len(figures))), np.zeros(0, np.int64)
    index = np.unique(sample, return_inverse=True)[1]
    totals = [np.bincount(index, weights=np.asarray(f, np.float64)) for f in figures]
    return np.column_stack(totals), np.bincount(index)
