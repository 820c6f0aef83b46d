"""Is one model better than another on the same examples? Paired, by groups and by trainings.

Two things are left to chance: which groups are tested, and the seeds of the trainings. Both are
resampled independently of each other, the same for all models (Owen, 2007, "The pigeonhole
bootstrap"): groups with replacement, and of the N trainings of each fold N - 1 with replacement,
because N of N would give only (N - 1) / N of the variance of their mean (Rao and Wu, 1988,
"Resampling inference with complex survey data"). With one training, the variance over seeds is left
out.
"""

from collections.abc import Sequence

import numpy as np

from mlm.evaluation.artefacts import Verdict
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.few_groups import with_few_groups
from mlm.finetuning.finetuning_metrics import Measured, PartSize, ScoreDifference, name_of

_PARTS = {"all": "on all passages", "unseen": "on passages that pretraining never trained on"}


class Comparison:
    """Scores of several models on the same examples, and the differences between them. `figures`
    holds by model what is averaged, float [examples, trainings], or [examples, 1] of a model
    without seeds: squared errors, `rooted`, or 1 or 0. `units` [examples] are resampled as a whole;
    each is in one of `folds` [examples]."""

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
        self._how = how
        trainings = max(values.shape[1] for values in figures.values())
        _, first, index = np.unique(np.asarray(units), return_index=True, return_inverse=True)
        counts = np.bincount(index)
        #: Sums of each group: [groups, models, trainings].
        totals = np.zeros((len(counts), len(figures), trainings))
        for i, values in enumerate(figures.values()):
            np.add.at(totals[:, i], index, np.asarray(values, np.float64))
        self._scores = self._finish(totals.mean(axis=2).sum(axis=0) / counts.sum())
        self._drawn = self._finish(_resampled(totals, counts, np.asarray(folds)[first], how))

    def of(self, name: str, beside: str | None = None) -> Measured:
        """A model's score, or how much higher it is than that of the model `beside`."""
        i = self._names.index(name)
        score, drawn = self._scores[i], self._drawn[:, i]
        if beside is not None:
            j = self._names.index(beside)
            score, drawn = score - self._scores[j], drawn - self._drawn[:, j]
        low, high = self._how.interval(drawn)
        return Measured(round(float(score), 6), (round(low, 6), round(high, 6)))


def _resampled(
    totals: np.ndarray, counts: np.ndarray, folds: np.ndarray, how: Resampling
) -> np.ndarray:
    """Means over examples and trainings by bootstrap sample, float64 [resamples, models], of
    `totals` [groups, models, trainings]."""
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


def finetuning_verdicts(
    score: str, confidence: float, parts: dict[str, PartSize], differences: list[ScoreDifference]
) -> list[Verdict]:
    """One verdict for each difference and part. `score`: rmse (less is better) or accuracy."""
    unit, found = "RMSE" if score == "rmse" else "accuracy", []
    asked = [(d, p) for d in differences for p in _PARTS if getattr(d, p) is not None]
    for difference, part in asked:
        measured, size = getattr(difference, part), parts[part]
        low, high = measured.interval
        interval = f"{100 * confidence:g} % interval {low:+.3f} to {high:+.3f}"
        interval = with_few_groups(interval, size.groups, size.examples)
        tone, said = "even", "not told apart from"
        if not low <= 0 <= high:
            tone = "better" if (measured.score < 0) == (score == "rmse") else "worse"
            said = f"{tone} than"
        name, other = name_of(difference.model), name_of(difference.beside)
        subject = f"{name[0].upper()}{name[1:]}" + (", it" if name.startswith("fine") else "")
        text = f"{subject} is {said} {other} {_PARTS[part]}: {measured.score:+.3f} in {unit}"
        found.append(Verdict(tone, f"{text} ({interval})."))
    return found
