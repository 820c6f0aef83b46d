"""What the configuration says of the tokenizer, and where the text does not allow it."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from mlm.config.tokenizer import MOST_BY_ITSELF
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import SPECIAL_NAMES

#: The pieces of byte fallback, by byte.
BYTE_PIECES = tuple(f"<0x{byte:02X}>" for byte in range(256))


@dataclass(frozen=True)
class TokenizerSettings:
    """The section `tokenizer` of the configuration; docs/configuration.md describes each key.

    `by_itself`: the text decides on the size, and `vocabulary_size` is the first to be tried.
    """

    kind: str
    vocabulary_size: int
    special_tokens: tuple[str, ...]
    byte_fallback: bool
    replacements: tuple[tuple[str, str], ...]
    unknown_literal: str | None
    character_coverage: float
    max_training_bytes: int
    training_threads: int
    by_itself: bool = False

    @classmethod
    def of(cls, section: dict[str, Any], size: float | None = None) -> "TokenizerSettings":
        """The settings in a resolved configuration's section, for `size` bytes of text.

        None: for a text that is large, or of a size that is not known.
        """
        tuples = {
            "special_tokens": tuple(section["special_tokens"][name] for name in SPECIAL_NAMES),
            "replacements": tuple((old, new) for old, new in section["replacements"]),
        }
        given = {f.name: section[f.name] for f in fields(cls) if f.name in section} | tuples
        if given["vocabulary_size"] is None:
            given |= {"vocabulary_size": _suitable(size), "by_itself": True}
        return cls(**given)

    @property
    def reserved(self) -> int:
        """Ids that are not learned: the special tokens and the bytes."""
        return len(self.special_tokens) + (len(BYTE_PIECES) if self.byte_fallback else 0)


def _suitable(size: float | None) -> int:
    """How many ids suit `size` bytes of text: Heaps' law has the words grow by the square root."""
    if size is None:
        return MOST_BY_ITSELF
    return max(100, min(MOST_BY_ITSELF, round(2.5 * math.sqrt(size) / 100) * 100))


NO_TEXT = (
    "There is no text to train a tokenizer on: of the train split nothing but white space and "
    "special tokens was read."
)


class AlphabetTooLarge(MlmError):
    """The characters alone take `needed` ids, more than there are."""

    def __init__(self, needed: int, settings: TokenizerSettings):
        self.needed = needed
        super().__init__(
            "The alphabet of the train split is larger than tokenizer.vocabulary_size: "
            f"{settings.vocabulary_size}. The characters alone need {needed} ids; set more than "
            f"that, or lower tokenizer.character_coverage: {settings.character_coverage} so that "
            "rare characters are left to the unknown token (or, with byte_fallback, to bytes)."
        )

    def fitting(self, settings: TokenizerSettings) -> TokenizerSettings:
        """`settings` of some more ids than characters, so that there are longer pieces too."""
        return replace(settings, vocabulary_size=self.needed + max(100, self.needed // 4))


class CorpusTooSmall(MlmError):
    """The text gives `ids`, fewer than were asked for."""

    def __init__(self, ids: int, settings: TokenizerSettings):
        self.ids = ids
        super().__init__(
            f"The train split is too small for tokenizer.vocabulary_size: "
            f"{settings.vocabulary_size}. Its text gives no more than {ids} ids; set {ids} or "
            "less, or add text."
        )
