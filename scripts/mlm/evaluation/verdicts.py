"""What the figures say, in sentences, so that a poor model cannot look like a good one."""

from mlm.evaluation.metrics import Difference

#: A gap between train and test above this share of the test loss is called memorising.
_MEMORISED = 0.1
#: A calibration error above this is worth a sentence.
_MISCALIBRATED = 0.05
#: Fewer predictions than this and the figures say little.
_FEW_PREDICTIONS = 1000


def against_baseline(name: str, difference: Difference) -> str:
    """`difference` is the model's loss minus the baseline's, at the same positions."""
    size = f"{abs(difference.mean):.3f} nats"
    if difference.high < 0:
        return f"Better than {name} by {size} a prediction ({difference.in_words()})."
    if difference.low > 0:
        return f"Not better than {name}: worse by {size} a prediction ({difference.in_words()})."
    return (
        f"Not better than {name}: the difference of {size} is within the confidence interval "
        f"({100 * difference.confidence:g} %: {difference.low:.3f} to {difference.high:.3f})."
    )


def between_train_and_test(test_loss: float, train_loss: float, gap: Difference) -> str:
    """`gap` is the loss on test minus the loss on a sample of train."""
    figures = f"{train_loss:.3f} on train, {test_loss:.3f} on test, {gap.in_words()}"
    size = f"{abs(gap.mean):.3f} nats"
    if gap.low > 0 and gap.mean > _MEMORISED * test_loss:
        return (
            f"Memorised: the loss on train is {size} below the loss on test ({figures}); the "
            "model knows its training text better than the language."
        )
    if gap.low > 0:
        return f"Slightly better on train than on test, by {size} ({figures})."
    if gap.high < 0:
        return f"Better on test than on train, by {size} ({figures}): the two texts differ."
    return f"No gap between train and test beyond chance ({figures})."


def on_calibration(error: float, confidence: float, accuracy: float) -> str | None:
    """A sentence where the model is over- or underconfident, else None."""
    if error <= _MISCALIBRATED:
        return None
    word = "Overconfident" if confidence > accuracy else "Underconfident"
    return (
        f"{word}: it gives its first answers {100 * confidence:.1f} % on average, and "
        f"{100 * accuracy:.1f} % of them are right (expected calibration error {error:.3f})."
    )


def on_size(num_predictions: int, num_samples: int) -> str | None:
    """A sentence where there is too little to judge by, else None."""
    if num_predictions >= _FEW_PREDICTIONS:
        return None
    return (
        f"Few predictions: {num_predictions} in {num_samples} samples; the figures are rough, "
        "and so are their intervals."
    )
