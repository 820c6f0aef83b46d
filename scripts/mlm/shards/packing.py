"""Packing: documents' tokens, one after the other, cut into samples of a fixed length.

The usual way to fill every position in masked-language-model pretraining (RoBERTa's
FULL-SENTENCES without the limit of a document; Liu et al., 2019, section 4.2).
"""

import numpy as np


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
