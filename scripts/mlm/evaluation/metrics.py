"""The figures of an evaluation, from per-position arrays alone."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mlm.evaluation.artefacts import (
    Bin,
    Calibration,
    Difference,
    FrequencyBand,
    GroupSums,
    MeansOfModel,
    Summary,
)
from mlm.evaluation.bits_by_group import TextOfGroups
from mlm.evaluation.bootstrap import Resampling, bundled, sums_by_unit
from mlm.evaluation.predictions import Answers, Scored, Scores

#: Rows of sums that evaluation.json holds at most, however many groups there are.
MOST_GROUP_SUMS = 2000


def bits_per_character(loss: float, tokens_per_character: float | None) -> float | None:
    """Loss of all the text's tokens in bits, over its characters, by which tokenizers compare. A
    pseudo-likelihood: it does not compare with left-to-right models."""
    return loss / math.log(2) * tokens_per_character if tokens_per_character else None


def means_over(scores: Answers) -> dict[str, float]:
    """The means over all predictions that a model and a baseline share."""
    loss = float(np.mean(scores.loss))
    return {
        "loss": loss,
        # Capped at the largest float, so that it can be written as JSON.
        "perplexity": math.exp(min(loss, 709.0)),
        "accuracy": float(np.mean(scores.correct)),
    }


def means_of_model(scores: Scores) -> dict[str, float]:
    """The means over all predictions of a model."""
    return means_over(scores) | {
        "top5_accuracy": float(np.mean(scores.rank <= 5)),
    }


def summary_of(
    scored: Scored, mask_id: int, tokens_per_character: float | None, resampling: Resampling
) -> Summary:
    """The figures over all predictions; their intervals resample `Positions.unit`."""
    hidden = scored.where_hidden(mask_id)
    headline = MeansOfModel(**_measured(hidden, resampling))
    ends = [bits_per_character(end, tokens_per_character) for end in headline.loss_interval or ()]
    return Summary(
        **_measured(scored, resampling),
        num_samples=len(np.unique(hidden.positions.sample)),
        num_groups=len(np.unique(hidden.positions.group)),
        bits_per_character=bits_per_character(headline.loss, tokens_per_character),
        bits_per_character_interval=tuple(ends) if tokens_per_character and ends else None,
        hidden=headline,
    )


def _measured(scored: Scored, resampling: Resampling) -> dict[str, Any]:
    scores = scored.scores
    means = resampling.means(scored.positions.unit, scores.loss, scores.correct)
    return means_of_model(scores) | {
        "num_predictions": len(scores),
        "loss_interval": resampling.interval(means[:, 0]),
        "accuracy_interval": resampling.interval(means[:, 1]),
    }


def paired_difference(
    unit: np.ndarray, one: np.ndarray, other: np.ndarray, resampling: Resampling
) -> Difference:
    """mean(one − other) at the same positions [predictions], resampled by `unit`."""
    difference = one.astype(np.float64) - other
    means = resampling.means(unit, difference)[:, 0]
    return Difference(float(np.mean(difference)), resampling.interval(means))


def gap_between(
    test: Scored, train: Scored, resampling: Resampling, less: Sequence[np.ndarray] = (0, 0)
) -> Difference:
    """How much higher the loss on test is than on train, the two texts drawn independently; `less`
    is subtracted from the losses on test and on train, [predictions] each."""
    losses = [scored.scores.loss - other for scored, other in zip((test, train), less, strict=True)]
    on_test, on_train = (
        resampling.means(scored.positions.unit, loss, text=number)[:, 0]
        for number, (scored, loss) in enumerate(zip((test, train), losses, strict=True))
    )
    difference = float(np.mean(losses[0]) - np.mean(losses[1]))
    return Difference(difference, resampling.interval(on_test - on_train))


def frequency_bands(
    truth: np.ndarray, scores: Answers, counts: np.ndarray, uppers: Iterable[int]
) -> list[FrequencyBand]:
    """Bands by the true token's rank in train, whose counts are `counts` [vocabulary]; of equals,
    the lower id first. `uppers` are the bands' last ranks; a last band takes the rest."""
    ranks = np.empty(len(counts), np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(1, len(counts) + 1)
    rank, bands, first = ranks[truth], [], 1
    for last in [*sorted(set(uppers)), None]:
        chosen = (rank >= first) & (rank <= (last or len(counts)))
        number = int(np.count_nonzero(chosen))
        means = [
            float(np.mean(values[chosen])) if number else None
            for values in (scores.loss, scores.correct)
        ]
        label = f"{first:,} to {last:,}" if last else f"{first:,} and rarer"
        bands.append(FrequencyBand(*means, number, label, first, last))
        first = (last or 0) + 1
    return bands


def calibration_of(confidence: np.ndarray, correct: np.ndarray, bins: int) -> Calibration:
    """The calibration curve and the expected calibration error of the first answers' `confidence`
    [predictions], by bins of equal width (Guo et al., "On Calibration of Modern Neural Networks",
    2017, section 2)."""
    # The upper edge belongs to the bin, as in the paper; rounding may put 1.0 above it.
    index = np.clip(np.ceil(np.asarray(confidence, np.float64) * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(index, minlength=bins)
    sums = (np.bincount(index, weights=w, minlength=bins) for w in (confidence, correct))
    curve, gaps = [], []
    for i, (n, confidences, corrects) in enumerate(zip(counts, *sums, strict=True)):
        means = (float(confidences / n), float(corrects / n)) if n else (None, None)
        curve.append(Bin(i / bins, (i + 1) / bins, *means, num_predictions=int(n)))
        if n:
            gaps.append(int(n) * abs(means[0] - means[1]))
    return Calibration(sum(gaps) / len(confidence) if gaps else None, curve)


def group_sums(test: Scored, texts: TextOfGroups | None = None) -> GroupSums:
    """The test split's sums by group, of neighbours together beyond `MOST_GROUP_SUMS`. If its
    `texts` are known and of several groups, all of them have a row with the sums of their text, so
    that the rows of two vocabularies are of the same groups."""
    correct, unit = test.scores.correct.astype(np.int64), test.positions.unit
    table = np.column_stack(sums_by_unit(unit, test.scores.loss, correct))
    if texts is not None and unit is not test.positions.sample:
        whole = np.zeros((len(texts.ids), table.shape[1]))
        whole[np.searchsorted(texts.ids, np.unique(unit))] = table
        table = np.column_stack([whole, texts.tokens, texts.characters])
    table = bundled(table, MOST_GROUP_SUMS)
    return GroupSums(table[:, 0].tolist(), *table[:, 1:].T.astype(int).tolist())
