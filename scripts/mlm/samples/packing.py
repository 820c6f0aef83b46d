"""Packing: documents' tokens, one after the other, cut into samples of a fixed length (RoBERTa's
FULL-SENTENCES without the limit of a document; Liu et al., 2019, section 4.2)."""

import numpy as np

#: The group of padding.
NO_GROUP = -1


class Packer:
    """Cuts a stream of tokens, and of the groups that they belong to, into rows of
    `sequence_length`; the rest waits for more."""

    def __init__(self, sequence_length: int, pad_id: int):
        self.sequence_length, self.pad_id = sequence_length, pad_id
        self._tokens, self._groups = np.zeros(0, np.int32), np.zeros(0, np.int64)

    def add(self, tokens: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The samples [n, sequence_length] that `tokens` [m] int32 complete, and the groups of
        their tokens, of `groups` [m] int64."""
        rows = []
        for name, new in (("_tokens", tokens), ("_groups", groups)):
            stream = np.concatenate((getattr(self, name), new))
            full = len(stream) // self.sequence_length * self.sequence_length
            setattr(self, name, stream[full:].copy())
            rows.append(stream[:full].reshape(-1, self.sequence_length))
        return rows[0], rows[1]

    def finish(self) -> tuple[np.ndarray, np.ndarray, int]:
        """The last sample, padded, [1, sequence_length] ([0, sequence_length] if no token waits),
        its groups, and its number of tokens."""
        waiting = len(self._tokens)
        missing = -waiting % self.sequence_length
        tokens, groups = self.add(
            np.full(missing, self.pad_id, np.int32), np.full(missing, NO_GROUP, np.int64)
        )
        return tokens, groups, waiting
