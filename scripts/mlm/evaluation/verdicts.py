"""Sentences about the figures, which warn of a poor model, seen text and rough figures."""

from mlm.evaluation.artefacts import Calibration, Difference, EvaluationFigures, Summary, Verdict
from mlm.evaluation.few_groups import on_few_groups

#: A gap between train and test above this share of the test loss is called memorising.
_MEMORISED = 0.1
#: A calibration error above this is worth a sentence.
_MISCALIBRATED = 0.05
#: A larger share of test words in runs of words that train has is a warning.
_SEEN = 0.01
#: Fewer predictions than this and the figures say little.
_FEW_PREDICTIONS = 1000


def verdicts_on(
    figures: EvaluationFigures, carved: bool, num_samples: int, of_samples: int
) -> list[Verdict]:
    """The verdicts on `figures`, the unigram's first. `carved`: the test split was dealt from train
    document by document; `num_samples` of its `of_samples` were evaluated."""
    confidence, test = figures.settings["bootstrap"]["confidence"], figures.test
    found = [
        against_baseline(_in_words(key), baseline, confidence)
        for key, baseline in figures.baselines.items()
    ]
    if figures.gap is not None:
        found.append(between_train_and_test(test, figures.train, figures.gap, confidence))
        if carved:
            found.append(_ON_CARVING)
    found.append(on_few_groups(figures.group_by, test.num_groups))
    found.append(on_calibration(figures.calibration, test.accuracy))
    if num_samples != of_samples:
        words = f"{num_samples:,} of the test split's {of_samples:,} samples, at equal distances"
        found.append(Verdict("plain", f"Evaluated on {words} (evaluation.max_tokens)."))
    if test.num_predictions < _FEW_PREDICTIONS:
        words = f"{test.num_predictions} in {test.num_samples} samples; the figures are rough"
        found.append(Verdict("even", f"Few predictions: {words}, and so are their intervals."))
    return [verdict for verdict in found if verdict is not None]


def _in_words(baseline: str) -> str:
    name, _, hidden = baseline.partition("_")
    seen = "what the model sees" if hidden else "every neighbour"
    return "the unigram baseline" if name == "unigram" else f"the two-sided {name} that sees {seen}"


def against_baseline(name: str, found: Difference, confidence: float) -> Verdict:
    """`found` is the model's loss minus the baseline's, at the same positions."""
    size, interval = f"{abs(found.difference):.3f} nats", _interval(found, confidence)
    low, high = found.difference_interval
    words = {
        "better": f"Better than {name} by {size} per prediction ({interval}).",
        "worse": f"Not better than {name}: worse by {size} per prediction ({interval}).",
        "even": f"Not better than {name}: the difference of {size} is within the confidence "
        f"interval ({100 * confidence:g} %: {low:.3f} to {high:.3f}).",
    }
    return Verdict(found.tone, words[found.tone])


def _interval(found: Difference, confidence: float) -> str:
    """The interval of the size of a difference, for the end of a sentence."""
    low, high = found.difference_interval
    if found.difference < 0:
        low, high = -high, -low
    return f"{100 * confidence:g} % interval of the difference {low:.3f} to {high:.3f}"


def between_train_and_test(
    test: Summary, train: Summary, gap: Difference, confidence: float
) -> Verdict:
    """`gap` is the loss on test minus the loss on a sample of train."""
    low, high = gap.difference_interval
    size, interval = f"{abs(gap.difference):.3f} nats", _interval(gap, confidence)
    figures = f"({train.loss:.3f} on train, {test.loss:.3f} on test, {interval})"
    tone, said = "better", f"No gap between train and test beyond chance {figures}."
    if low > 0 and gap.difference > _MEMORISED * test.loss:
        tone, said = "worse", f"Memorised: the loss on train is {size} below the loss on test "
        said += f"{figures}; the model knows its training text better than the language."
    elif low > 0:
        tone, said = "even", f"Slightly better on train than on test, by {size} {figures}."
    elif high < 0:
        said = f"Better on test than on train, by {size} {figures}: the two texts differ."
        tone = "even"
    return Verdict(tone, said)


#: Said beside the gap if documents were dealt to the splits one by one.
_ON_CARVING = Verdict(
    "plain",
    "Part of the gap may be no fault of the model: the test split is carved from train document by "
    "document, so that its samples join documents that do not belong together, while those of "
    "train mostly follow one another. That alone made test samples harder by 0.05 to 0.08 nats "
    "where it was measured by shuffling.",
)


def on_overlap(share: float) -> Verdict:
    """`share` is that of the test split's words in runs of 13 words that train has too."""
    measured = f"{100 * share:.2f} % of its words are in runs of 13 words that train has too"
    if share > _SEEN:
        return Verdict(
            "even",
            f"The test text is not unseen: {measured}; the test loss is too low. Group the "
            "versions of a text (corpus.group_by), or set corpus.filters.decontamination.also to "
            "[validation, test].",
        )
    return Verdict("better", f"The test text is unseen: {measured}.")


def on_calibration(found: Calibration, accuracy: float) -> Verdict | None:
    """A sentence if the model is over- or underconfident, else None."""
    error = found.expected_calibration_error
    if error <= _MISCALIBRATED:
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
