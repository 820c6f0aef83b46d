"""A tokenizer for tests of what comes after tokenising: one id a character."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ids:
    cls: int = 0
    pad: int = 1
    sep: int = 2
    unk: int = 3
    mask: int = 4


class CharacterTokenizer:
    """[CLS], each character's code point plus 5, [SEP]."""

    vocabulary_size = 0x110000 + 5
    special_ids = Ids()

    def encode(self, texts):
        return [[0, *(ord(c) + 5 for c in text), 2] for text in texts]

    def count_special_literals(self, texts):
        return sum(text.count("[MASK]") for text in texts)
