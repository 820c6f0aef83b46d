"""Is one model better than another on the same examples? Paired, by groups and by trainings.

Two things are left to chance: which groups are tested, and the seeds of the trainings. Errors on
passages of one group go together, and so do those of one training, which tests a whole fold; the
two cross inside each fold. Both are resampled independently of each other, the same for all
models (Owen, 2007, "The pigeonhole bootstrap"): groups with replacement, and of the N trainings
of each fold N - 1 with replacement, because N of N would give only (N - 1) / N of the variance
of their mean (Rao and Wu, 1988, "Resampling inference with complex survey data"). With one
training, the intervals leave the variance over seeds out. That of the pretraining's own seed, and
of what the folds were trained on, is in no interval.
"""

from collections.abc import Sequence

import numpy as np

from mlm.evaluation.bootstrap import Resampling, interval
from mlm.finetuning.finetuning_metrics import Measured


class Comparison:
    """Scores of several models on the same examples, and the differences between them.

    `figures` holds by model what is averaged, float [examples, trainings], or [examples, 1] of
    a model that no seed changes: squared errors for a regression (the score is the root of
    their mean, over the trainings as well), 1 or 0 for a classification (the score is their
    mean). `units` [examples] says what is resampled together, and lies in one of `folds`
    [examples] each.
    """

    def __init__(
        self,
        figures: dict[str, np.ndarray],
        units: Sequence[str],
        folds: Sequence[int],
        rooted: bool,
        how: Resampling,
    ):
        self._names = list(figures)
        self._finish = np.sqrt if rooted else np.asarray
        self._confidence = how.confidence
        trainings = max(values.shape[1] for values in figures.values())
        _, first, index = np.unique(np.asarray(units), return_index=True, return_inverse=True)
        counts = np.bincount(index)
        #: Sums of each group: [groups, models, trainings].
        totals = np.zeros((len(counts), len(figures), trainings))
        for i, values in enumerate(figures.values()):
            np.add.at(totals[:, i], index, np.asarray(values, np.float64))
        self._scores = self._finish(totals.mean(axis=2).sum(axis=0) / counts.sum())
        self._drawn = self._finish(_resampled(totals, counts, np.asarray(folds)[first], how))

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


def _resampled(
    totals: np.ndarray, counts: np.ndarray, folds: np.ndarray, how: Resampling
) -> np.ndarray:
    """Means over examples and trainings by bootstrap sample: float64 [resamples, models].

    `totals` [groups, models, trainings], `counts` and `folds` [groups]. The draws are a function
    of the seed and the shapes.
    """
    groups, _, trainings = totals.shape
    _, fold = np.unique(folds, return_inverse=True)
    generator = np.random.Generator(np.random.Philox(key=how.seed))
    of_trainings = max(1, trainings - 1)
    means = np.empty((how.resamples, totals.shape[1]))
    for resample in range(how.resamples):
        times = np.bincount(generator.integers(0, groups, groups), minlength=groups)
        shares = np.full((fold.max() + 1, trainings), 1 / trainings)
        if trainings > 1:
            drawn = generator.integers(0, trainings, (len(shares), of_trainings))
            shares = (drawn[:, :, None] == np.arange(trainings)).mean(axis=1)
        weights = times[:, None] * shares[fold]
        means[resample] = np.einsum("gt,gmt->m", weights, totals) / (times @ counts)
    return means
