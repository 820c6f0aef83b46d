"""The special tokens: their names, the order of their ids, and their texts."""

from collections.abc import Iterator
from typing import NamedTuple

from mlm.config.fields import Section, Text


class SpecialIds(NamedTuple):
    """The special tokens, in the order of the ids that a tokenizer trained here gives."""

    cls: int
    pad: int
    sep: int
    unk: int
    mask: int


SPECIAL_NAMES = SpecialIds._fields


class SpecialTokens(Section):
    cls: Text = "[CLS]"
    """Text of the token before each document, id 0; in brackets such as [ ] or < >."""
    pad: Text = "<pad>"
    """Text of the padding token, id 1."""
    sep: Text = "[SEP]"
    """Text of the token after each document, id 2."""
    unk: Text = "<unk>"
    """Text of the unknown token, id 3."""
    mask: Text = "[MASK]"
    """Text of the mask token, id 4."""

    @property
    def texts(self) -> tuple[str, ...]:
        """In the order of their ids."""
        return tuple(self.model_dump().values())

    def contradictions(self) -> Iterator[str]:
        for name, text in self.model_dump().items():
            if len(text) < 3 or text[0].isalnum() or text[-1].isalnum() or len(text.split()) != 1:
                yield (
                    f"{name}: {text!r} is ordinary text, or holds white space; put it between "
                    "marks, as in '[MASK]' or '<pad>'"
                )
            if self.texts.count(text) > 1:
                yield f"{name}: {text!r} is another special token as well; give each its own"
