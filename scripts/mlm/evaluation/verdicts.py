"""Sentences about the figures, which warn of a poor model, seen text and rough figures."""

from mlm.corpus.artefacts import WordOverlap
from mlm.evaluation.artefacts import (
    BASELINES,
    Baseline,
    Calibration,
    Difference,
    EvaluationFigures,
    Verdict,
)

#: A gap between train and test above this share of the test loss is called memorising.
_MEMORISED = 0.1
#: A calibration error above this is worth a sentence.
_MISCALIBRATED = 0.05
#: A larger share of test words in runs of words that train has is a warning.
_SEEN = 0.01
#: Fewer predictions than this and the figures say little.
_FEW_PREDICTIONS = 1000
#: With fewer groups, intervals that resample them are too narrow (Cameron, Gelbach and Miller,
#: "Bootstrap-based improvements for inference with clustered errors", 2008).
FEW_GROUPS = 20


def verdicts_on(figures: EvaluationFigures, num_samples: int, of_samples: int) -> list[Verdict]:
    """The verdicts on `figures`, the unigram's first; `num_samples` of the test split's
    `of_samples` were evaluated."""
    confidence, test = figures.settings["bootstrap"]["confidence"], figures.test
    found = [against_baseline(n, figures.baselines[n], confidence) for n in BASELINES]
    if figures.gap_beyond_unigram is not None:
        losses = test.hidden.loss, figures.train.hidden.loss
        found.append(between_train_and_test(*losses, figures.gap_beyond_unigram, confidence))
    found.append(on_few_groups(figures.group_by, test.num_groups))
    found.append(on_calibration(figures.calibration, test.hidden.accuracy))
    if num_samples != of_samples:
        words = f"{num_samples:,} of the test split's {of_samples:,} samples, at equal distances"
        found.append(Verdict("plain", f"Evaluated on {words} (evaluation.max_tokens)."))
    if test.hidden.num_predictions < _FEW_PREDICTIONS:
        words = f"{test.hidden.num_predictions} in {test.num_samples} samples"
        found.append(Verdict("even", f"Few predictions: {words}; figures and intervals are rough."))
    return [verdict for verdict in found if verdict is not None]


def against_baseline(name: str, found: Baseline, confidence: float) -> Verdict:
    """Whether the model is ahead of the baseline in loss and in accuracy, beyond chance."""
    ends = found.accuracy_difference_interval
    points = Difference(100 * found.accuracy_difference, ends and (100 * ends[0], 100 * ends[1]))
    loss = _standing("loss", found.tone, found, " nats", f"{100 * confidence:g} %: ")
    accuracy = _standing("accuracy", found.accuracy_tone, points, " points")
    return Verdict(found.tones, f"Against the {name}: {loss}, {accuracy}.")


def _standing(what: str, tone: str, found: Difference, unit: str, level: str = "") -> str:
    """Ahead or behind, and by how much; a difference that may be chance keeps its sign."""
    digits = 3 if what == "loss" else 1
    if tone == "even":
        ends = " to ".join(_signed(end, digits) for end in found.difference_interval or ())
        numbers = f"{_signed(found.difference, digits)}{unit}, {level}{ends or 'no interval'}"
        return f"cannot be told apart in {what} ({numbers})"
    low, high = sorted(map(abs, found.difference_interval))
    by = f"{abs(found.difference):.{digits}f}{unit} ({level}{low:.{digits}f} to {high:.{digits}f})"
    return f"{'ahead' if tone == 'better' else 'behind'} in {what} by {by}"


def _signed(number: float, digits: int = 3) -> str:
    return f"{number:+.{digits}f}".replace("-", "−")


def between_train_and_test(
    test: float, train: float, gap: Difference, confidence: float
) -> Verdict:
    """`gap` is the loss on `test` less that on a sample of `train`, both less the unigram's."""
    low, high = gap.difference_interval or (0, 0)
    ends = f"{100 * confidence:g} % interval {_signed(low)} to {_signed(high)}"
    figures = f"({train:.3f} on train, {test:.3f} on test; the difference less the unigram's is "
    figures += f"{_signed(gap.difference)}, {ends if gap.difference_interval else 'no interval'})"
    if low > 0 and gap.difference > _MEMORISED * test:
        said = f"Memorised: the loss on train is far below the loss on test {figures}; the model "
        return Verdict("worse", f"{said}knows its training text better than the language.")
    if low > 0:
        return Verdict("even", f"Slightly better on train than on test {figures}.")
    if high < 0:
        return Verdict("even", f"Better on test than on train {figures}: the two texts differ.")
    if gap.difference_interval is None:
        return Verdict("even", f"Whether train is known better was not measured {figures}.")
    return Verdict("better", f"No gap between train and test beyond chance {figures}.")


def on_overlap(overlap: WordOverlap) -> Verdict:
    """The verdict on the words of the test split that train has too."""
    run, words = overlap.run_words, overlap.words + overlap.unmeasured_words
    if overlap.share is None or overlap.words < overlap.unmeasured_words:
        said = f"Whether train has the test text was not measured: {overlap.unmeasured_words:,} of "
        said += f"{words:,} words are in documents of fewer than {run}."
        return Verdict("even", said)
    measured = f"{100 * overlap.share:.2f} % of its words are in runs of {run} that train has too"
    if overlap.share > _SEEN:
        return Verdict(
            "even",
            f"The test text is not unseen: {measured}. Group the versions of a text "
            "(corpus.group_by), or leave out of train what shares runs of words with it "
            "(corpus.filters.decontamination: also, words).",
        )
    return Verdict("better", f"The test text is unseen: {measured}.")


def on_few_groups(group_by: str | None, num_groups: int) -> Verdict | None:
    """A warning if the test text has few groups (by `group_by`) or one."""
    if num_groups == 1:
        text = (
            f"One group: the whole test text is of one {group_by}, so that single samples are "
            "resampled; the intervals say nothing of other texts."
        )
    elif num_groups < FEW_GROUPS:
        text = (
            f"Few groups: the intervals resample the {num_groups} groups ({group_by}) of the test "
            f"text; with fewer than {FEW_GROUPS} they are optimistic (too narrow)."
        )
    else:
        return None
    return Verdict("even", text)


def with_few_groups(interval: str, groups: int, rows: int) -> str:
    """`interval`, in words, warned of if its `groups`, or `rows` without any, are few."""
    number, what = (groups, "groups") if groups else (rows, "rows")
    if number >= FEW_GROUPS:
        return interval
    return f"{interval}, too narrow because from only {number} {what}"


def on_calibration(found: Calibration, accuracy: float) -> Verdict | None:
    """A sentence if the model is over- or underconfident, else None."""
    error = found.expected_calibration_error
    if error is None or error <= _MISCALIBRATED:
        return None
    bins = [one for one in found.bins if one.num_predictions]
    confidence = sum(one.confidence * one.num_predictions for one in bins)
    confidence /= sum(one.num_predictions for one in bins)
    word = "Overconfident" if confidence > accuracy else "Underconfident"
    return Verdict(
        "even",
        f"{word}: it gives its first answers {100 * confidence:.1f} % on average, and "
        f"{100 * accuracy:.1f} % of them are right (expected calibration error {error:.3f}).",
    )
