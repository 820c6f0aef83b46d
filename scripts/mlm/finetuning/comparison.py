"""Is one model better than another on the same examples? Paired, by groups.

Intervals are those of the evaluation: whole groups are resampled (mlm.evaluation.bootstrap), the
same groups for all models. A model's figure for an example is its mean over the trainings.
"""

from collections.abc import Sequence

import numpy as np

from mlm.evaluation.artefacts import Verdict
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.verdicts import with_few_groups
from mlm.finetuning.finetuning_metrics import Measured, PartSize, ScoreDifference, name_of

_PARTS = {"all": "on all passages", "unseen": "on passages that pretraining never trained on"}


class Comparison:
    """Scores of several models on the same examples, and the differences between them. `figures`
    holds by model what is averaged, float [examples, trainings]: squared errors, `rooted`, or 1 or
    0. `units` [examples] are resampled as a whole."""

    def __init__(
        self,
        figures: dict[str, np.ndarray],
        units: Sequence[str],
        rooted: bool,
        resampling: Resampling,
    ):
        finish = np.sqrt if rooted else np.asarray
        means = {name: np.mean(values, axis=1) for name, values in figures.items()}
        resampled = finish(resampling.means(np.asarray(units), *means.values()))
        self._interval = resampling.interval
        self._scores = {name: float(finish(values.mean())) for name, values in means.items()}
        self._resampled = dict(zip(means, resampled.T, strict=True))

    def of(self, name: str, beside: str | None = None) -> Measured:
        """Return a model's score, or how much higher it is than that of the model `beside`."""
        score, resampled = self._scores[name], self._resampled[name]
        if beside is not None:
            score, resampled = score - self._scores[beside], resampled - self._resampled[beside]
        ends = self._interval(resampled)
        return Measured(round(score, 6), ends and (round(ends[0], 6), round(ends[1], 6)))


def finetuning_verdicts(
    score: str, confidence: float, parts: dict[str, PartSize], differences: list[ScoreDifference]
) -> list[Verdict]:
    """One verdict for each difference and part. `score`: rmse (less is better) or accuracy."""
    unit, found = "RMSE" if score == "rmse" else "accuracy", []
    asked = [(d, p) for d in differences for p in _PARTS if getattr(d, p) is not None]
    for difference, part in asked:
        measured, size = getattr(difference, part), parts[part]
        low, high = measured.interval or (0, 0)
        interval = f"{100 * confidence:g} % interval {low:+.3f} to {high:+.3f}"
        interval = with_few_groups(interval, size.groups, size.examples)
        interval = interval if measured.interval else "no interval: one group"
        tone, said = "even", "not told apart from"
        if not low <= 0 <= high:
            tone = "better" if (measured.score < 0) == (score == "rmse") else "worse"
            said = f"{tone} than"
        name, other = name_of(difference.model), name_of(difference.beside)
        subject = f"{name[0].upper()}{name[1:]}" + (", it" if name.startswith("fine") else "")
        text = f"{subject} is {said} {other} {_PARTS[part]}: {measured.score:+.3f} in {unit}"
        found.append(Verdict(tone, f"{text} ({interval})."))
    return found
