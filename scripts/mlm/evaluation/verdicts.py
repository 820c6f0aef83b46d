"""What the figures say, in sentences, so that a poor model cannot look like a good one."""

from mlm.evaluation.artefacts import Verdict
from mlm.evaluation.bootstrap import FEW_GROUPS
from mlm.evaluation.metrics import Difference

#: A gap between train and test above this share of the test loss is called memorising.
_MEMORISED = 0.1
#: A calibration error above this is worth a sentence.
_MISCALIBRATED = 0.05
#: Fewer predictions than this and the figures say little.
_FEW_PREDICTIONS = 1000


def against_baseline(name: str, difference: Difference) -> Verdict:
    """`difference` is the model's loss minus the baseline's, at the same positions."""
    size = f"{abs(difference.mean):.3f} nats"
    if difference.high < 0:
        return Verdict(
            "better", f"Better than {name} by {size} per prediction ({difference.in_words()})."
        )
    if difference.low > 0:
        return Verdict(
            "worse",
            f"Not better than {name}: worse by {size} per prediction ({difference.in_words()}).",
        )
    return Verdict(
        "even",
        f"Not better than {name}: the difference of {size} is within the confidence interval "
        f"({100 * difference.confidence:g} %: {difference.low:.3f} to {difference.high:.3f}).",
    )


def between_train_and_test(test_loss: float, train_loss: float, gap: Difference) -> Verdict:
    """`gap` is the loss on test minus the loss on a sample of train."""
    figures = f"{train_loss:.3f} on train, {test_loss:.3f} on test, {gap.in_words()}"
    size = f"{abs(gap.mean):.3f} nats"
    if gap.low > 0 and gap.mean > _MEMORISED * test_loss:
        return Verdict(
            "worse",
            f"Memorised: the loss on train is {size} below the loss on test ({figures}); the "
            "model knows its training text better than the language.",
        )
    if gap.low > 0:
        return Verdict("even", f"Slightly better on train than on test, by {size} ({figures}).")
    if gap.high < 0:
        return Verdict(
            "even", f"Better on test than on train, by {size} ({figures}): the two texts differ."
        )
    return Verdict("better", f"No gap between train and test beyond chance ({figures}).")


#: Said beside the gap where documents were dealt to the splits one by one.
ON_CARVING = Verdict(
    "plain",
    "Part of the gap may be no fault of the model: the test split is carved from train document by "
    "document, so that its samples join documents that do not belong together, while those of "
    "train mostly follow one another. That alone made test samples harder by 0.05 to 0.08 nats "
    "where it was measured by shuffling.",
)


def on_groups(group_by: str | None, num_groups: int) -> Verdict | None:
    """A sentence where the intervals are optimistic for want of groups, else None.

    `group_by` is what the groups are called, None where the shards do not know theirs.
    """
    if group_by is None:
        return Verdict(
            "even",
            "No groups: these shards do not say which samples belong together, so that single "
            "samples are resampled; the intervals are optimistic (too narrow) where samples of one "
            "text resemble each other.",
        )
    if num_groups == 1:
        return Verdict(
            "even",
            f"One group: the whole test text is of one {group_by}, so that single samples are "
            "resampled; the intervals say nothing of other texts.",
        )
    if num_groups < FEW_GROUPS:
        return Verdict(
            "even",
            f"Few groups: the intervals resample the {num_groups} groups ({group_by}) of the test "
            f"text; with fewer than {FEW_GROUPS} they are optimistic (too narrow).",
        )
    return None


def on_calibration(error: float, confidence: float, accuracy: float) -> Verdict | None:
    """A sentence where the model is over- or underconfident, else None."""
    if error <= _MISCALIBRATED:
        return None
    word = "Overconfident" if confidence > accuracy else "Underconfident"
    return Verdict(
        "even",
        f"{word}: it gives its first answers {100 * confidence:.1f} % on average, and "
        f"{100 * accuracy:.1f} % of them are right (expected calibration error {error:.3f}).",
    )


def on_sampling(num_samples: int, of_samples: int) -> Verdict | None:
    """That `num_samples` of the test split's `of_samples` were evaluated; None where all were."""
    if num_samples == of_samples:
        return None
    return Verdict(
        "plain",
        f"Evaluated on {num_samples:,} of the test split's {of_samples:,} samples, at equal "
        "distances (evaluation.max_tokens).",
    )


def on_size(num_predictions: int, num_samples: int) -> Verdict | None:
    """A sentence where there is too little to judge by, else None."""
    if num_predictions >= _FEW_PREDICTIONS:
        return None
    return Verdict(
        "even",
        f"Few predictions: {num_predictions} in {num_samples} samples; the figures are rough, "
        "and so are their intervals.",
    )
