"""What the configuration says of the tokenizer, and what it cannot ask for."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlm.errors import ConfigError
from mlm.tokenizer.encoding import SPECIAL_NAMES

#: Kinds that can write a character outside the vocabulary as its UTF-8 bytes.
BYTE_FALLBACK_KINDS = ("unigram", "bpe")
#: The pieces of byte fallback, by byte.
BYTE_PIECES = tuple(f"<0x{byte:02X}>" for byte in range(256))

_COMMIT = re.compile(r"[0-9a-f]{40}")


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
        """The settings in a resolved configuration's section.

        Raises ConfigError with all that contradicts itself in it.
        """
        settings = cls(
            kind=section["kind"],
            vocabulary_size=section["vocabulary_size"],
            special_tokens=tuple(section["special_tokens"][name] for name in SPECIAL_NAMES),
            byte_fallback=section["byte_fallback"],
            replacements=tuple((old, new) for old, new in section["replacements"]),
            unknown_literal=section["unknown_literal"],
            character_coverage=section["character_coverage"],
            max_training_bytes=section["max_training_bytes"],
            training_threads=section["training_threads"],
        )
        if problems := tokenizer_problems(section):
            raise ConfigError(problems)
        return settings

    @property
    def reserved(self) -> int:
        """Ids that are not learned: the special tokens and the bytes."""
        return len(self.special_tokens) + (len(BYTE_PIECES) if self.byte_fallback else 0)


def tokenizer_problems(section: dict[str, Any]) -> list[str]:
    """What no trainer could do, in one line each, from the resolved section `tokenizer`."""
    problems = []
    kind = section["kind"]
    if section["byte_fallback"] and kind not in BYTE_FALLBACK_KINDS:
        reason = (
            "longest-match-first has no piece for a single byte inside a word"
            if kind == "wordpiece"
            else "a pretrained tokenizer brings its own treatment of unknown characters"
        )
        problems.append(
            f"tokenizer.byte_fallback: true is not possible for kind {kind} ({reason}); set it "
            f"to false, or choose {' or '.join(BYTE_FALLBACK_KINDS)}"
        )
    if kind == "pretrained":
        pretrained = section["pretrained"]
        path, revision = pretrained["path"], pretrained["revision"]
        if path and revision and not Path(path).is_dir() and not is_commit(revision):
            problems.append(
                f"tokenizer.pretrained.revision: {revision!r} pins nothing, since a branch or a "
                "tag can move; a commit of 40 hexadecimal digits is expected"
            )
        return problems
    reserved = len(SPECIAL_NAMES) + (len(BYTE_PIECES) if section["byte_fallback"] else 0)
    if section["vocabulary_size"] <= reserved:
        problems.append(
            f"tokenizer.vocabulary_size: {section['vocabulary_size']} leaves no room beside "
            f"{reserved} ids for special tokens and bytes; set at least {reserved + 100}"
        )
    problems += [
        f"tokenizer.special_tokens.{name}: {text!r} holds white space, which no token may"
        for name, text in section["special_tokens"].items()
        if any(c.isspace() for c in text)
    ]
    problems += [
        f"tokenizer.replacements: {old!r} is to be replaced by {new!r}; the first of the two "
        "must not be empty"
        for old, new in section["replacements"]
        if not old
    ]
    return problems


def alphabet_too_large(needed: int, settings: TokenizerSettings) -> str:
    """What to say where the characters alone take `needed` ids, more than there are."""
    return (
        "The alphabet of the train split is larger than tokenizer.vocabulary_size: "
        f"{settings.vocabulary_size}. The characters alone need {needed} ids; set more than "
        f"that, or lower tokenizer.character_coverage: {settings.character_coverage} so that "
        "rare characters are left to the unknown token (or, with byte_fallback, to bytes)."
    )


def corpus_too_small(found: int, settings: TokenizerSettings) -> str:
    """What to say where the text gives `found` ids, fewer than were asked for."""
    return (
        f"The train split is too small for tokenizer.vocabulary_size: "
        f"{settings.vocabulary_size}. Its text gives no more than {found} ids; set {found} or "
        "less, or add text."
    )


def is_commit(revision: str | None) -> bool:
    """Whether `revision` is a commit's full hash: a branch or a tag can move."""
    return bool(revision) and _COMMIT.fullmatch(revision) is not None
