"""Sentences about the figures, which warn of a poor model, seen text and rough figures."""

from mlm.corpus.artefacts import WordOverlap
from mlm.evaluation.artefacts import BASELINES, Baseline, Difference, EvaluationFigures, Verdict
from mlm.foundations.terminal import signed

#: A gap between train and test above this share of the test loss is called memorising.
MEMORISED = 0.1
#: A larger share of test words in runs of words that train has is a warning.
SEEN = 0.01
#: Fewer predictions than this and the figures say little.
_FEW_PREDICTIONS = 1000
#: With fewer clusters, intervals are rough.
FEW_CLUSTERS = 10


def verdicts_on(figures: EvaluationFigures, num_tokens: int) -> list[Verdict]:
    """The verdicts on `figures`, the unigram's first; the test split has `num_tokens`."""
    test, train = figures.test, figures.train
    verdicts = [
        *(against_baseline(name, figures.baselines[name]) for name in BASELINES),
        between_train_and_test(test.loss, train.loss, figures.gap_to_train),
        on_few_clusters(figures.cluster_by, test.num_clusters),
    ]
    if num_tokens > figures.settings["max_tokens"]:
        words = f"{test.num_predictions:,} of the test split's {num_tokens:,} tokens"
        verdicts.append(Verdict("plain", f"Evaluated on {words} (evaluation.max_tokens)."))
    if test.num_predictions < _FEW_PREDICTIONS:
        words = f"{test.num_predictions} in {test.num_samples} samples"
        verdicts.append(Verdict("even", f"Few predictions: {words}; figures are rough."))
    return [verdict for verdict in verdicts if verdict is not None]


def against_baseline(name: str, baseline: Baseline) -> Verdict:
    """Whether the model is ahead of the baseline in loss and in accuracy, beyond chance."""
    difference = baseline.accuracy_difference
    ends = difference.interval and (100 * difference.interval[0], 100 * difference.interval[1])
    points = Difference(100 * difference.value, ends)
    loss = _standing("loss", baseline.loss_difference, "nats", 3)
    accuracy = _standing("accuracy", points, "points", 1)
    return Verdict(baseline.tone, f"Against the {name}: {loss}, {accuracy}.")


def _standing(metric: str, difference: Difference, unit: str, digits: int) -> str:
    """Ahead or behind, by how much, and what could have been told apart."""
    words = {"better": "ahead in", "worse": "behind in", "even": "cannot be told apart in"}
    tone, interval = difference.tone(higher_is_better=metric == "accuracy"), "no interval"
    if difference.interval is not None:
        interval = "95 %: " + " to ".join(signed(end, digits) for end in difference.interval)
        if tone == "even":
            interval += f"; {difference.smallest_shown:.{digits}f} would be told apart"
    return f"{words[tone]} {metric} ({signed(difference.value, digits)} {unit}, {interval})"


def between_train_and_test(test: float, train: float, gap: Difference) -> Verdict:
    """`gap` is the loss on `test` less that on a sample of `train`, both minus the unigram's."""
    low, high = gap.interval or (0, 0)
    ends = f"95 %: {signed(low)} to {signed(high)}" if gap.interval else "no interval"
    figures = f"({train:.3f} on train, {test:.3f} on test; the difference minus the unigram's is "
    figures += f"{signed(gap.value)}, {ends})"
    if gap.interval is None:
        return Verdict("even", f"Whether train is known better was not measured {figures}.")
    if low > 0 and gap.value > MEMORISED * test:
        text = "Memorised: the model knows its training text far better than the language"
        return Verdict("worse", f"{text} {figures}.")
    if low > 0:
        return Verdict("even", f"Slightly better on train than on test {figures}.")
    if high < 0:
        return Verdict("even", f"Better on test than on train: the two texts differ {figures}.")
    return Verdict("better", f"No gap between train and test beyond chance {figures}.")


def on_overlap(overlap: WordOverlap) -> Verdict:
    """Return the verdict on the words of the test split that occur in train as well."""
    run, unmeasured = overlap.run_words, overlap.unmeasured_words
    if overlap.share is None or not overlap.is_measured:
        text = f"Whether train has the test text was not measured: {unmeasured:,} of "
        text += f"{overlap.words + unmeasured:,} words are in documents of fewer than {run}."
        return Verdict("even", text)
    measured = f"{100 * overlap.share:.2f} % of its words are in {run}-grams of train"
    if overlap.share <= SEEN:
        return Verdict("better", f"The test text is unseen: {measured}.")
    return Verdict(
        "even",
        f"The test text is not unseen: {measured}. Group the versions of a text (corpus.group_by), "
        "or leave out of train what shares runs of words with it "
        "(corpus.filters.decontamination: also, words).",
    )


def on_few_clusters(cluster_by: str, num_clusters: int) -> Verdict | None:
    """A warning if the intervals have few clusters, or single samples of one text."""
    if cluster_by == "sample":
        text = "One group or none: the intervals are over single samples, and say nothing of other "
        return Verdict("even", f"{text}texts (corpus.group_by).")
    if num_clusters >= FEW_CLUSTERS:
        return None
    text = f"Few groups: the intervals are over the {num_clusters} of the test text"
    return Verdict("even", f"{text} ({cluster_by}); with fewer than {FEW_CLUSTERS} they are rough.")
