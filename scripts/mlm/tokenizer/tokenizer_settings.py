"""What the configuration says of the tokenizer, and where the text does not allow it."""

from dataclasses import dataclass, fields
from typing import Any

from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import SPECIAL_NAMES

#: The pieces of byte fallback, by byte.
BYTE_PIECES = tuple(f"<0x{byte:02X}>" for byte in range(256))


@dataclass(frozen=True)
class TokenizerSettings:
    """The section `tokenizer` of the configuration; config.yaml says what each key is."""

    kind: str
    vocabulary_size: int
    special_tokens: tuple[str, ...]
    byte_fallback: bool
    replacements: tuple[tuple[str, str], ...]
    unknown_literal: str | None
    character_coverage: float
    max_training_bytes: int
    training_threads: int

    @classmethod
    def of(cls, section: dict[str, Any]) -> "TokenizerSettings":
        """The settings in a resolved configuration's section."""
        tuples = {
            "special_tokens": tuple(section["special_tokens"][name] for name in SPECIAL_NAMES),
            "replacements": tuple((old, new) for old, new in section["replacements"]),
        }
        return cls(**({f.name: section[f.name] for f in fields(cls)} | tuples))

    @property
    def reserved(self) -> int:
        """Ids that are not learned: the special tokens and the bytes."""
        return len(self.special_tokens) + (len(BYTE_PIECES) if self.byte_fallback else 0)


NO_TEXT = (
    "There is no text to train a tokenizer on: of the train split nothing but white space and "
    "special tokens was read."
)


def alphabet_too_large(needed: int, settings: TokenizerSettings) -> str:
    """What to say where the characters alone take `needed` ids, more than there are."""
    return (
        "The alphabet of the train split is larger than tokenizer.vocabulary_size: "
        f"{settings.vocabulary_size}. The characters alone need {needed} ids; set more than "
        f"that, or lower tokenizer.character_coverage: {settings.character_coverage} so that "
        "rare characters are left to the unknown token (or, with byte_fallback, to bytes)."
    )


class CorpusTooSmall(MlmError):
    """The text gives `ids`, fewer than were asked for."""

    def __init__(self, ids: int, settings: TokenizerSettings):
        self.ids = ids
        super().__init__(
            f"The train split is too small for tokenizer.vocabulary_size: "
            f"{settings.vocabulary_size}. Its text gives no more than {ids} ids; set {ids} or "
            "less, or add text."
        )
