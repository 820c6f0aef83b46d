"""Calibration: does a model that is 70 % sure get it right 7 times in 10?

Follows Guo et al., "On Calibration of Modern Neural Networks" (2017), section 2: bins of
equal width by the probability of the most probable token; the expected calibration error
is the mean distance between confidence and accuracy, weighted by the bins' predictions.
"""

import numpy as np

from mlm.evaluation.artefacts import Bin


def calibration_bins(confidence: np.ndarray, correct: np.ndarray, bins: int) -> list[Bin]:
    """The calibration curve.

    `confidence` [predictions] is the probability of the most probable token, `correct`
    [predictions] whether it was the true one.
    """
    # The upper edge belongs to the bin, as in the paper; rounding may put 1.0 above it.
    index = np.clip(np.ceil(np.asarray(confidence, np.float64) * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(index, minlength=bins)
    confidences = np.bincount(index, weights=confidence, minlength=bins)
    corrects = np.bincount(index, weights=correct, minlength=bins)
    return [
        Bin(
            low=i / bins,
            high=(i + 1) / bins,
            confidence=float(confidences[i] / n) if n else None,
            accuracy=float(corrects[i] / n) if n else None,
            num_predictions=int(n),
        )
        for i, n in enumerate(counts)
    ]


def expected_calibration_error(bins: list[Bin]) -> float:
    """Mean |confidence − accuracy| over the bins, weighted by their predictions; 0 to 1."""
    total = sum(b.num_predictions for b in bins)
    gaps = (b.num_predictions * abs(b.confidence - b.accuracy) for b in bins if b.num_predictions)
    return sum(gaps) / total if total else 0.0
