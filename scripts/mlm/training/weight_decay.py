"""Which weights decay, in both engines."""

from collections.abc import Sequence


def decays(shape: Sequence[int]) -> bool:
    """Whether a weight of this shape decays: not biases and norms, as in BERT's release."""
    return len(shape) > 1
