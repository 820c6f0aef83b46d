"""Predicted positions, and the answers of a model or a baseline there."""

from dataclasses import dataclass

import numpy as np

from mlm.samples.split_samples import Rows

#: A neighbour that does not exist: the edge of the sequence, or padding.
NO_NEIGHBOUR = -1
#: Number of neighbours known on either side.
REACH = 2


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
