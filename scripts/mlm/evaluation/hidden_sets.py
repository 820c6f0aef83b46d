"""Which tokens are hidden together, and the answers of a model or a baseline there.

The text tokens of a sample are divided into a few disjoint sets, and each set is hidden in turn, so
that every token is predicted once. docs/masks.md specifies the division for whoever wants to
compute it again.
"""

from dataclasses import dataclass

import numpy as np

from mlm.samples.masking import FIXED_EPOCH
from mlm.samples.random_bits import threefry
from mlm.samples.shard_reading import Rows, Samples, evenly_spread

#: A neighbour that does not exist: the edge of the sequence, or padding.
NO_NEIGHBOUR = -1
#: Number of neighbours known on either side.
REACH = 2


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


@dataclass(frozen=True)
class Positions(Rows):
    """Predicted positions of a split, by sample and position: the `sample`'s index; the `group` of
    the token's document; the id `truth`. `left` and `right` are the ids of the neighbours in the
    model's input, nearest first, [positions, REACH]; all others are [positions]."""

    sample: np.ndarray
    group: np.ndarray
    truth: np.ndarray
    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class Answers(Rows):
    """`log_probability` in nats of the true tokens, and whether each is the most probable one, as
    `correct` [positions]; of equals, the lowest id is first."""

    log_probability: np.ndarray
    correct: np.ndarray

    @property
    def loss(self) -> np.ndarray:
        """Cross-entropy in nats, [positions]."""
        return -self.log_probability


@dataclass(frozen=True)
class Scores(Answers):
    """A model's answers: also the `rank` of the true tokens from 1."""

    rank: np.ndarray


def positions_of(
    input_ids: np.ndarray,
    attention_mask: np.ndarray,
    shown_ids: np.ndarray,
    chosen: np.ndarray,
    index: np.ndarray | None = None,
    group: np.ndarray | None = None,
) -> Positions:
    """The Positions at the `chosen` places of a batch whose model sees `shown_ids`, all [batch,
    sequence]. Without `index` [batch] samples count from 0; without `group` each is one."""
    row, column = np.nonzero(chosen)
    sample = (row if index is None else index[row]).astype(np.int64)
    ids = np.where(attention_mask.astype(bool), shown_ids, NO_NEIGHBOUR)
    ids = np.pad(ids, ((0, 0), (REACH, REACH)), constant_values=NO_NEIGHBOUR)
    away = np.arange(1, REACH + 1)
    return Positions(
        sample=sample,
        group=sample if group is None else group[row, column],
        truth=input_ids[row, column].astype(np.int32),
        left=ids[row[:, None], column[:, None] + REACH - away].astype(np.int32),
        right=ids[row[:, None], column[:, None] + REACH + away].astype(np.int32),
    )
