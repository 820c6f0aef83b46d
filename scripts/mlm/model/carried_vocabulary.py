"""A new vocabulary that begins with what an old one has learned.

Pieces are compared by their bytes and by whether a word starts with them, however their tokenizers
mark that. What both have is copied. Another piece is the mean of those that its text falls into,
weighted by their characters (as Fast Vocabulary Transfer, Gee et al., 2022, arXiv 2402.09977, has
it unweighted).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mlm.tokenizer.pieces import BYTE_SPACE, METASPACE, pieces_by_id, word_starts

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Reading(NamedTuple):
    """What a piece is, in whatever tokenizer: its bytes, without the mark of a word's start."""

    starts: bool
    content: bytes


class Vocabulary:
    """A tokenizer's pieces, by the content of its tokenizer.json, and special tokens by name."""

    def __init__(self, content: dict[str, Any], special: dict[str, str | None]):
        import tokenizers

        self.names = pieces_by_id(content)
        ids = {name: i for i, name in enumerate(self.names)}
        self.ids, self.special = ids, {role: ids.get(text) for role, text in special.items()}
        self._added = {t["content"] for t in content.get("added_tokens", ()) if t.get("special")}
        model = content["model"]
        self._prefix = self._joined = None
        if model["type"] == "WordPiece":
            self._prefix = prefix = model.get("continuing_subword_prefix") or "##"
            # What another word ends with, alone.
            ends = {n.removeprefix(prefix): i for n, i in ids.items() if n.startswith(prefix)}
            ends[model["unk_token"]] = ids[model["unk_token"]]
            self._joined = tokenizers.models.WordPiece(
                ends, unk_token=model["unk_token"], continuing_subword_prefix=""
            )
        marks = json.dumps([content.get("pre_tokenizer"), content.get("decoder")])
        self._bytes = _bytes_of_characters() if '"ByteLevel"' in marks else None
        self._mark = BYTE_SPACE if self._bytes else METASPACE
        self._starts = word_starts(content)
        self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
        self._unknown = self.special.get("unk")

    def readings(self) -> list[Reading | None]:
        """How each id reads; None for special tokens and empty names."""
        return [
            None if not name or name in self._added else self._reading(name, bool(starts))
            for name, starts in zip(self.names, self._starts, strict=True)
        ]

    def _reading(self, name: str, starts: bool) -> Reading:
        if self._bytes and self._bytes.keys() >= set(name):
            content = bytes(map(self._bytes.get, name))
            return Reading(starts, content[1:] if starts else content)
        if self._prefix is not None:
            # Punctuation is a word of its own, which no space needs to be before.
            starts = starts and any(map(str.isalnum, name))
            return Reading(starts, name.removeprefix(self._prefix).encode())
        if found := _BYTE.fullmatch(name):
            return Reading(False, bytes.fromhex(found[1]))
        return Reading(starts, name.removeprefix(METASPACE).replace(METASPACE, " ").encode())

    @cached_property
    def by_reading(self) -> dict[Reading, int]:
        """The first id of each reading."""
        backwards = reversed([*enumerate(self.readings())])
        return {reading: i for i, reading in backwards if reading is not None}

    def cut(self, reading: Reading) -> list[tuple[int, int]]:
        """The ids that the text of `reading` falls into here, each with its length in characters;
        none if a part of it is unknown."""
        try:
            text = reading.content.decode()
        except UnicodeDecodeError:
            bytes_ = [self.by_reading.get(Reading(False, bytes([b]))) for b in reading.content]
            return [] if None in bytes_ else [(i, 1) for i in bytes_]
        if self._tokenizer.normalizer is not None:
            text = self._tokenizer.normalizer.normalize_str(text)
        words = self._words(text.strip(" " + METASPACE))
        joined = bool(words and self._joined) and not reading.starts
        joined = joined and self._words("a" + words[0])[0] != "a"
        if words and not self._prefix:
            words[0] = self._mark * reading.starts + words[0].removeprefix(self._mark)
        found = []
        for number, word in enumerate(words):
            model = self._joined if joined and number == 0 else self._tokenizer.model
            for token in model.tokenize(word):
                if token.id == self._unknown:
                    return []
                text = token.value.removeprefix(self._prefix or self._mark)
                found.append((token.id, max(1, len(text))))
        return found

    def _words(self, text: str) -> list[str]:
        if self._tokenizer.pre_tokenizer is None:
            return [text.replace(" ", METASPACE)] * bool(text)
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(text)]


def _bytes_of_characters() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for."""
    from transformers.models.gpt2.tokenization_gpt2 import bytes_to_unicode

    return {character: byte for byte, character in bytes_to_unicode().items()}


@dataclass(frozen=True)
class CarriedVocabulary:
    """By new id, the old ids that it begins with, each with its weight: one if it is copied, none
    if nothing is known of it. `same`: both vocabularies are one."""

    parts: tuple[tuple[tuple[int, float], ...], ...]
    same: bool

    @classmethod
    def between(cls, old: Vocabulary, new: Vocabulary) -> "CarriedVocabulary":
        """From one vocabulary to another; special tokens go by their roles."""
        if old.names == new.names and old.special == new.special:
            return cls(tuple(((i, 1.0),) for i in range(len(new.names))), same=True)
        parts: list[Sequence[tuple[int, float]]] = []
        for name, reading in zip(new.names, new.readings(), strict=True):
            known = old.ids.get(name) if reading is None else old.by_reading.get(reading)
            parts.append([(known, 1)] if known is not None else old.cut(reading) if reading else [])
        for role, i in new.special.items():
            known = old.special.get(role)
            parts[i] = [] if known is None else [(known, 1)]
        sums = [sum(weight for _, weight in ids) for ids in parts]
        weighted = zip(parts, sums, strict=True)
        return cls(tuple(tuple((i, w / total) for i, w in ids) for ids, total in weighted), False)

    @cached_property
    def _counts(self) -> np.ndarray:
        return np.array([len(ids) for ids in self.parts])

    @property
    def begun(self) -> np.ndarray:
        """Which new ids begin with something old, bool [vocabulary]."""
        return self._counts > 0

    def ways(self) -> dict[str, int]:
        """How many pieces came by which way."""
        ways = {
            "copied": int((self._counts == 1).sum()),
            "mean of pieces": int((self._counts > 1).sum()),
            "left": int((self._counts == 0).sum()),
        }
        return {way: count for way, count in ways.items() if count}

    def table(self, old: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        """The new embeddings, [vocabulary, width], of the `old` ones; those that do not begin with
        any are the `fresh` ones. Means stay shorter than others: of the usual norm,
        they begin at a higher loss."""
        means = np.zeros(fresh.shape, np.float64)
        for i, ids in enumerate(self.parts):
            for part, weight in ids:
                means[i] += weight * old[part]
        return np.where(self.begun[:, np.newaxis], means, fresh).astype(fresh.dtype)

    def bias(self, old: np.ndarray) -> np.ndarray:
        """The new output bias, [vocabulary], of the `old` one: a piece is no more frequent than the
        rarest of its parts. Others have the mean: nothing would be a large probability."""
        mean = old.mean()
        rarest = [min((old[i] for i, _ in ids), default=mean) for ids in self.parts]
        return np.array(rarest, old.dtype)
