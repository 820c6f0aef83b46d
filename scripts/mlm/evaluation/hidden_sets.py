"""Which tokens are hidden together: the text tokens of a sample are divided into a few disjoint
sets, and each set is hidden in turn, so that every token is predicted once. docs/masks.md specifies
the division for whoever wants to compute it again."""

from dataclasses import dataclass

import numpy as np

from mlm.samples.masking import FIXED_EPOCH
from mlm.samples.random_bits import threefry
from mlm.samples.split_samples import Samples, evenly_spread


def number_of_sets(share: float) -> int:
    """Return the number of sets that hold about `share` of a sample's text tokens each."""
    return max(1, round(1 / share))


def set_numbers(samples: Samples, special_ids: list[int], sets: int, seed: int) -> np.ndarray:
    """Return the set of each token, int32 [samples, sequence]; -1 of padding and special tokens,
    which are never hidden. Text tokens are dealt out in the order of their random words."""
    position = np.arange(samples.input_ids.shape[1], dtype=np.uint32)[None]
    index = samples.index.astype(np.uint32)[:, None]
    key = tuple(np.array([[number]], np.uint32) for number in (seed, FIXED_EPOCH))
    score, _ = threefry(key, (index, 2 * position))
    text = samples.attention_mask & ~np.isin(samples.input_ids, special_ids)
    order = np.argsort(np.where(text, score.astype(np.int64), 2**32), axis=1, kind="stable")
    return np.where(text, np.argsort(order, axis=1) % sets, -1).astype(np.int32)


@dataclass(frozen=True)
class Questions:
    """Samples of a split: at `rows` [questions] of them, set `sets` [questions] is hidden."""

    samples: Samples
    rows: np.ndarray
    sets: np.ndarray


def evaluated_sets(
    samples: int, tokens: int, sets: int, max_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sample and the set of each question, [questions] each: all sets of a split of so
    many `samples` and `tokens`, or evenly spaced ones that hold about `max_tokens`."""
    every = samples * sets
    count = every if tokens <= max_tokens else max(1, max_tokens * every // tokens)
    index, numbers = np.divmod(evenly_spread(every, count), sets)
    return index, numbers.astype(np.int32)
