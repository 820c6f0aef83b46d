"""Confidence intervals for means over predictions, by resampling whole samples.

Predictions in one sample share their context and their document, so they are no independent
draws; samples are taken as the unit (the cluster bootstrap; Efron and Tibshirani, "An
Introduction to the Bootstrap", 1993, chapters 8 and 13). A mean over predictions is then a
ratio of two sums over samples, and both are resampled together.
"""

import numpy as np

#: Draws held in memory at a time.
_BLOCK = 4_000_000


def resampled_means(
    totals: np.ndarray, counts: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """Means over predictions in `resamples` bootstrap samples: float64 [resamples, figures].

    `totals` [samples, figures] are sums over each sample's predictions and `counts`
    [samples] their number. Samples without a prediction are left out. The draws come from
    a Philox generator keyed with `seed`: the same arguments give the same result, and two
    calls with the same seed and counts draw the same samples, so that differences pair.
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


def sums_by_sample(sample: np.ndarray, *figures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Totals [samples, figures] and counts [samples] by sample, in order of the index.

    `sample` [predictions] says which sample a prediction belongs to, each of `figures`
    [predictions] is added up.
    """
    if len(sample) == 0:
        return np.zeros((0, len(figures))), np.zeros(0, np.int64)
    index = np.unique(sample, return_inverse=True)[1]
    totals = [np.bincount(index, weights=np.asarray(f, np.float64)) for f in figures]
    return np.column_stack(totals), np.bincount(index)
