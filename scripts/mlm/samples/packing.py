"""Packing: documents' tokens, one after the other, cut into samples of a fixed length.

Beside the tokens goes which group they are of, as spans: a span is a run of tokens of one group
within one sample.

The usual way to fill every position in masked-language-model pretraining (RoBERTa's
FULL-SENTENCES without the limit of a document; Liu et al., 2019, section 4.2).
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spans:
    """The spans of a batch of samples, sample after sample.

    `groups` and `lengths` (in tokens), int64 [spans]; `counts` int64 [batch] says how many
    spans each sample has. A sample's lengths add up to its real tokens.
    """

    groups: np.ndarray
    lengths: np.ndarray
    counts: np.ndarray

    def of_tokens(self, sequence_length: int) -> np.ndarray:
        """The group of every token, int64 [batch, sequence]; -1 at padding."""
        found = np.full((len(self.counts), sequence_length), -1, np.int64)
        samples = np.repeat(np.arange(len(self.counts)), self.counts)
        tokens = np.bincount(samples, self.lengths, len(self.counts))
        real = np.arange(sequence_length) < tokens[:, None]
        found[real] = np.repeat(self.groups, self.lengths)
        return found


class Packer:
    """Cuts a stream of tokens into rows of `sequence_length`; what is left waits for more."""

    def __init__(self, sequence_length: int, pad_id: int):
        self.sequence_length, self.pad_id = sequence_length, pad_id
        self._rest = np.zeros(0, np.int32)

    def add(self, tokens: np.ndarray) -> np.ndarray:
        """The samples [n, sequence_length] that `tokens` [m] complete; n may be 0."""
        tokens = np.concatenate((self._rest, tokens))
        full = len(tokens) // self.sequence_length * self.sequence_length
        self._rest = tokens[full:].copy()
        return tokens[:full].reshape(-1, self.sequence_length)

    def finish(self) -> tuple[np.ndarray, int]:
        """The last sample, padded, [1, sequence_length], and how many of its ids are tokens.

        Where no token waits, it is [0, sequence_length] and 0.
        """
        rest, self._rest = self._rest, np.zeros(0, np.int32)
        row = np.full((1 if len(rest) else 0, self.sequence_length), self.pad_id, np.int32)
        if len(rest):
            row[0, : len(rest)] = rest
        return row, len(rest)


class GroupPacker:
    """Cuts a stream of documents' groups into spans where `Packer` cuts their tokens."""

    def __init__(self, sequence_length: int):
        self.sequence_length = sequence_length
        self._groups, self._lengths = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, groups: np.ndarray, lengths: np.ndarray) -> Spans:
        """The spans of the samples that these documents complete.

        `groups` and `lengths` (in tokens), int64 [documents].
        """
        groups = np.concatenate((self._groups, groups))
        ends = np.cumsum(np.concatenate((self._lengths, lengths)))
        total = int(ends[-1]) if len(ends) else 0
        full = total // self.sequence_length * self.sequence_length
        left = ends > full
        self._groups, self._lengths = groups[left], np.diff(ends[left], prepend=full)
        return self._cut(groups, ends, full)

    def finish(self) -> Spans:
        """The spans of the last, padded sample, if a token waits."""
        groups, ends = self._groups, np.cumsum(self._lengths)
        self._groups, self._lengths = groups[:0], ends[:0]
        return self._cut(groups, ends, int(ends[-1]) if len(ends) else 0)

    def _cut(self, groups: np.ndarray, ends: np.ndarray, tokens: int) -> Spans:
        """Spans of the first `tokens` tokens of a stream in which group i ends at `ends[i]`."""
        last_of_group = np.append(groups[1:] != groups[:-1], True)[: len(groups)]
        edges = np.arange(self.sequence_length, tokens + 1, self.sequence_length)
        cuts = np.union1d(np.append(edges, tokens), ends[last_of_group])
        cuts = cuts[(cuts > 0) & (cuts <= tokens)]
        starts = np.concatenate((np.zeros(1, np.int64), cuts[:-1]))[: len(cuts)]
        return Spans(
            groups=groups[np.searchsorted(ends, starts, side="right")],
            lengths=cuts - starts,
            counts=np.bincount(
                starts // self.sequence_length, minlength=-(-tokens // self.sequence_length)
            ),
        )
