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
from mlm.foundations.terminal import signed

#: A gap between train and test above this share of the test loss is called memorising.
MEMORISED = 0.1
#: A calibration error above this is worth a sentence.
_MISCALIBRATED = 0.05
#: A larger share of test words in runs of words that train has is a warning.
SEEN = 0.01
#: Fewer predictions than this and the figures say little.
_FEW_PREDICTIONS = 1000
#: With fewer clusters, intervals are rough.
FEW_CLUSTERS = 10


def verdicts_on(figures: EvaluationFigures, num_tokens: int) -> list[Verdict]:
    """The verdicts on `figures`, the unigram's first; the test split has `num_tokens`."""
    test, train = figures.test, figures.train
    verdicts = [against_baseline(name, figures.baselines[name]) for name in BASELINES]
    verdicts.append(between_train_and_test(test.loss, train.loss, figures.gap_to_train))
    verdicts.append(on_few_clusters(figures.cluster_by, test.num_clusters))
    verdicts.append(on_calibration(figures.calibration, test.accuracy))
    if num_tokens > figures.settings["max_tokens"]:
        words = f"{test.num_predictions:,} of the test split's {num_tokens:,} tokens"
        verdicts.append(Verdict("plain", f"Evaluated on {words} (evaluation.max_tokens)."))
    if test.num_predictions < _FEW_PREDICTIONS:
        words = f"{test.num_predictions} in {test.num_samples} samples"
        verdicts.append(Verdict("even", f"Few predictions: {words}; figures are rough."))
    return [verdict for verdict in verdicts if verdict is not None]


def against_baseline(name: str, baseline: Baseline) -> Verdict:
    """Whether the model is ahead of the baseline in loss and in accuracy, beyond chance."""
    accuracy = baseline.accuracy_difference
    ends = accuracy.interval and tuple(100 * end for end in accuracy.interval)
    points = Difference(100 * accuracy.value, ends)
    by_loss = _standing("loss", baseline.loss_difference, " nats", "95 %: ")
    by_accuracy = _standing("accuracy", points, " points")
    return Verdict(baseline.tone, f"Against the {name}: {by_loss}, {by_accuracy}.")


def _standing(metric: str, difference: Difference, unit: str, level: str = "") -> str:
    """Ahead or behind, and by how much; a difference that may be chance keeps its sign."""
    digits = 3 if metric == "loss" else 1
    tone = difference.tone(higher_is_better=metric == "accuracy")
    if tone == "even":
        number = f"{signed(difference.value, digits)}{unit}"
        if difference.interval is None:
            return f"cannot be told apart in {metric} ({number}, no interval)"
        ends = " to ".join(signed(end, digits) for end in difference.interval)
        shown = f"{difference.smallest_shown:.{digits}f}{unit}"
        number = f"{number}, {level}{ends}; {shown} would be told apart"
        return f"cannot be told apart in {metric} ({number})"
    low, high = sorted(map(abs, difference.interval))
    by = f"{abs(difference.value):.{digits}f}{unit} ({level}{low:.{digits}f} to {high:.{digits}f})"
    return f"{'ahead' if tone == 'better' else 'behind'} in {metric} by {by}"


def between_train_and_test(test: float, train: float, gap: Difference) -> Verdict:
    """`gap` is the loss on `test` less that on a sample of `train`, both less the unigram's."""
    low, high = gap.interval or (0, 0)
    ends = f"95 % interval {signed(low)} to {signed(high)}" if gap.interval else "no interval"
    figures = (
        f"({train:.3f} on train, {test:.3f} on test; the difference less the unigram's is "
        f"{signed(gap.value)}, {ends})"
    )
    if gap.interval is None:
        return Verdict("even", f"Whether train is known better was not measured {figures}.")
    if low > 0 and gap.value > MEMORISED * test:
        return Verdict(
            "worse",
            f"Memorised: the loss on train is far below the loss on test {figures}; the model "
            "knows its training text better than the language.",
        )
    if low > 0:
        return Verdict("even", f"Slightly better on train than on test {figures}.")
    if high < 0:
        return Verdict("even", f"Better on test than on train {figures}: the two texts differ.")
    return Verdict("better", f"No gap between train and test beyond chance {figures}.")


def on_overlap(overlap: WordOverlap) -> Verdict:
    """The verdict on the words of the test split that train has too."""
    run, words = overlap.run_words, overlap.words + overlap.unmeasured_words
    if overlap.share is None or overlap.words < overlap.unmeasured_words:
        return Verdict(
            "even",
            f"Whether train has the test text was not measured: {overlap.unmeasured_words:,} of "
            f"{words:,} words are in documents of fewer than {run}.",
        )
    measured = f"{100 * overlap.share:.2f} % of its words are in runs of {run} that train has too"
    if overlap.share > SEEN:
        return Verdict(
            "even",
            f"The test text is not unseen: {measured}. Group the versions of a text "
            "(corpus.group_by), or leave out of train what shares runs of words with it "
            "(corpus.filters.decontamination: also, words).",
        )
    return Verdict("better", f"The test text is unseen: {measured}.")


def on_few_clusters(cluster_by: str, num_clusters: int) -> Verdict | None:
    """A warning if the intervals have few clusters, or single samples of one text."""
    if cluster_by == "sample":
        return Verdict(
            "even",
            "The test text has no groups, or one: the intervals are over single samples, and say "
            "nothing of other texts (corpus.group_by).",
        )
    if num_clusters >= FEW_CLUSTERS:
        return None
    return Verdict(
        "even",
        f"Few groups: the intervals are over the {num_clusters} of the test text "
        f"({cluster_by}); with fewer than {FEW_CLUSTERS} they are rough.",
    )


def with_few_clusters(interval: str, groups: int, rows: int) -> str:
    """`interval`, in words, warned of if its `groups`, or `rows` without any, are few."""
    number, name = (groups, "groups") if groups else (rows, "rows")
    if number >= FEW_CLUSTERS:
        return interval
    return f"{interval}, rough because from only {number} {name}"


def on_calibration(calibration: Calibration, accuracy: float) -> Verdict | None:
    """A sentence if the model is over- or underconfident, else None."""
    error = calibration.expected_calibration_error
    if error is None or error <= _MISCALIBRATED:
        return None
    bins = [one for one in calibration.bins if one.num_predictions]
    confidence = sum(one.confidence * one.num_predictions for one in bins)
    confidence /= sum(one.num_predictions for one in bins)
    word = "Overconfident" if confidence > accuracy else "Underconfident"
    return Verdict(
        "even",
        f"{word}: it gives its first answers {100 * confidence:.1f} % on average, and "
        f"{100 * accuracy:.1f} % of them are right (expected calibration error {error:.3f}).",
    )
