"""The figures of an evaluation, from per-position arrays alone."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from mlm.evaluation.artefacts import Hidden, Part, Summary
from mlm.evaluation.bootstrap import Resampling, interval, resampled_means, sums_by_sample
from mlm.evaluation.predictions import Ranked, Scored


@dataclass(frozen=True)
class Text:
    """How much text a split holds: its text tokens (no special token, no padding) and the
    characters they stand for, None where that is not known."""

    tokens: int
    characters: int | None


@dataclass(frozen=True)
class Difference:
    """A mean difference of two losses in nats, with its confidence interval."""

    mean: float
    low: float
    high: float
    confidence: float

    def in_words(self) -> str:
        """The interval of the size of the difference, for the end of a sentence."""
        low, high = (self.low, self.high) if self.mean >= 0 else (-self.high, -self.low)
        return f"{100 * self.confidence:g} % interval of the difference {low:.3f} to {high:.3f}"


def perplexity(loss: float) -> float:
    """exp(loss), capped at the largest float so that it can be written as JSON."""
    return math.exp(min(loss, 709.0))


def bits_per_character(loss: float, text: Text) -> float | None:
    """Loss of all the text's tokens in bits, over its characters.

    The mean loss of a predicted token stands for every text token of the split:
    loss / ln 2 × tokens / characters. Tokenizers that cut the same text into more or fewer
    pieces compare by it. It is a pseudo-likelihood (each token predicted from both sides),
    not the length of a code, so it does not compare with left-to-right models; and a
    tokenizer with many unknown tokens gets them cheaply.
    """
    if not text.characters:
        return None
    return loss / math.log(2) * text.tokens / text.characters


def summary(scored: Scored, mask_id: int, text: Text, resampling: Resampling) -> Summary:
    """Summary over all predictions; its intervals resample `Positions.unit`."""
    positions, scores = scored.positions, scored.scores
    hidden = positions.answer_hidden(mask_id)
    loss = float(np.mean(scores.loss))
    shown_nothing = part(scores, hidden)
    return Summary(
        loss=loss,
        perplexity=perplexity(loss),
        accuracy=float(np.mean(scores.correct)),
        top5_accuracy=float(np.mean(scores.rank <= 5)),
        num_predictions=len(scores),
        num_samples=len(np.unique(positions.sample)),
        num_groups=len(np.unique(positions.group)),
        bits_per_character=bits_per_character(shown_nothing.loss, text),
        **_intervals(positions.unit, scores, resampling),
        hidden=Hidden(
            **asdict(shown_nothing),
            **_intervals(positions.unit[hidden], scores[hidden], resampling),
        ),
    )


def _intervals(
    unit: np.ndarray, scores: Ranked, resampling: Resampling
) -> dict[str, tuple[float, float]]:
    """Of mean loss and accuracy, resampled by `unit` [predictions]."""
    totals, counts = sums_by_sample(unit, scores.loss, scores.correct)
    means = resampled_means(totals, counts, resampling.resamples, resampling.seed)
    return {
        f"{name}_interval": interval(means[:, i], resampling.confidence)
        for i, name in enumerate(("loss", "accuracy"))
    }


def paired_difference(
    unit: np.ndarray, loss: np.ndarray, other: np.ndarray, resampling: Resampling
) -> Difference:
    """mean(loss − other) at the same positions [predictions], resampled by `unit`."""
    totals, counts = sums_by_sample(unit, loss - other)
    means = resampled_means(totals, counts, resampling.resamples, resampling.seed)[:, 0]
    low, high = interval(means, resampling.confidence)
    return Difference(float(np.mean(loss - other)), low, high, resampling.confidence)


def independent_difference(
    first: tuple[np.ndarray, np.ndarray],
    second: tuple[np.ndarray, np.ndarray],
    resampling: Resampling,
) -> Difference:
    """mean(first loss) − mean(second loss) of two texts, each (unit, loss) [predictions]."""
    means = []
    for number, (unit, loss) in enumerate((first, second)):
        totals, counts = sums_by_sample(unit, loss)
        # Keys of their own, so that the two texts are drawn independently.
        key = resampling.seed + (number << 64)
        means.append(resampled_means(totals, counts, resampling.resamples, key)[:, 0])
    low, high = interval(means[0] - means[1], resampling.confidence)
    mean = float(np.mean(first[1]) - np.mean(second[1]))
    return Difference(mean, low, high, resampling.confidence)


def part(scores: Ranked, chosen: np.ndarray) -> Part:
    """Means over the predictions where `chosen` [predictions] is true."""
    count = int(np.count_nonzero(chosen))
    if not count:
        return Part(None, None, 0)
    return Part(
        loss=float(np.mean(scores.loss[chosen])),
        accuracy=float(np.mean(scores.correct[chosen])),
        num_predictions=count,
    )


def frequency_ranks(counts: np.ndarray) -> np.ndarray:
    """Each token's rank by frequency, 1 the most frequent; of equals, the lower id first.

    `counts` [vocabulary] are the train split's; so is the result.
    """
    order = np.argsort(-counts, kind="stable")
    ranks = np.empty(len(counts), np.int64)
    ranks[order] = np.arange(1, len(counts) + 1)
    return ranks


def frequency_bands(
    truth: np.ndarray, scores: Ranked, ranks: np.ndarray, uppers: Iterable[int]
) -> list[tuple[int, int | None, Part]]:
    """(first rank, last rank or None, Part) for each band of the true token's rank.

    `uppers` are the bands' last ranks, in any order; a last band takes the rest.
    """
    rank, bands, first = ranks[truth], [], 1
    for last in [*sorted(set(uppers)), None]:
        chosen = (rank >= first) & (rank <= (last or np.iinfo(np.int64).max))
        bands.append((first, last, part(scores, chosen)))
        first = (last or 0) + 1
    return bands


def position_bins(
    position: np.ndarray, scores: Ranked, sequence_length: int, bins: int = 8
) -> list[tuple[int, int, Part]]:
    """(first, last, Part) for up to `bins` equal stretches of the sequence, places from 0."""
    edges = np.unique(np.linspace(0, sequence_length, bins + 1).astype(int))
    return [
        (int(low), int(high) - 1, part(scores, (position >= low) & (position < high)))
        for low, high in itertools.pairwise(edges)
    ]


def extreme_samples(sample: np.ndarray, scores: Ranked, count: int) -> tuple[list, list]:
    """The `count` best and worst samples by mean loss: two lists of (index, loss, accuracy).

    Only samples with at least half of the mean number of predictions take part, so that a
    stub with one lucky guess wins nothing. Of equals, the lower index comes first. No
    sample is in both lists.
    """
    index = np.unique(sample)
    totals, counts = sums_by_sample(sample, scores.loss, scores.correct)
    enough = counts >= counts.mean() / 2 if len(counts) else np.zeros(0, bool)
    index, totals, counts = index[enough], totals[enough], counts[enough]
    means = totals / counts[:, None]
    order = np.argsort(means[:, 0], kind="stable")
    best = order[: min(count, (len(order) + 1) // 2)]
    rest = order[len(best) :]
    worst = rest[np.lexsort((index[rest], -means[rest, 0]))][:count]
    return tuple(
        [(int(index[i]), float(means[i, 0]), float(means[i, 1])) for i in chosen]
        for chosen in (best, worst)
    )
