"""A saved tokenizer: its files, and text to token ids. A tokenizer turns the string `[MASK]` into
the mask token: wanted in a prompt, wrong in a corpus. The encoder works on a copy whose special
tokens have names that no text can match, and puts them around each document itself."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mlm.config.special_tokens import SPECIAL_NAMES, SpecialIds
from mlm.config.tokenizer import TOKENIZER_FILES
from mlm.foundations.atomic import canonical_json, read_json, write_text
from mlm.foundations.errors import MlmError, reading
from mlm.tokenizer.pieces import METASPACE, pieces_by_id

_FLAGS = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")


class Encoder:
    """Encodes documents with a saved tokenizer; `literals` are all strings that are special tokens,
    `unknown_literal` the one that is read as an unknown word, or None."""

    def __init__(
        self, tokenizer: dict, special_tokens: dict[str, str], unknown_literal: str | None = None
    ):
        """Take a tokenizer.json's content, and the texts of the five special tokens by name."""
        self.vocabulary_size = len(pieces_by_id(tokenizer))
        self._whole = _parsed(tokenizer)
        vocabulary = self._whole.get_vocab(with_added_tokens=True)
        texts = [special_tokens.get(name, "") for name in SPECIAL_NAMES]
        if missing := [n for n, t in zip(SPECIAL_NAMES, texts, strict=True) if t not in vocabulary]:
            raise MlmError(
                f"The tokenizer lacks special tokens: {', '.join(missing)}. A masked language "
                "model needs them; choose another tokenizer, or train one (tokenizer.kind)."
            )
        self.special_ids = SpecialIds(*(vocabulary[text] for text in texts))
        self.unknown_literal = unknown_literal
        special = {t["content"] for t in tokenizer["added_tokens"] if t["special"]}
        self.literals = tuple(sorted(special.union(texts)))
        self._tokenizer = _parsed(
            _disarmed(tokenizer, self.literals, unknown_literal, self.special_ids.unk)
        )
        self._tokenizer.encode_special_tokens = True

    @classmethod
    def load(cls, tokenizer_json: str | os.PathLike) -> "Encoder":
        """Load a saved tokenizer. Raises MlmError if one of its files is missing or damaged."""
        path, config = Path(tokenizer_json), Path(tokenizer_json).with_name("tokenizer_config.json")
        tokens = path.with_name("special_tokens_map.json")
        with reading(tokens, "the special tokens of a tokenizer"):
            texts = {name: _read(tokens)[f"{name}_token"] for name in SPECIAL_NAMES}
        with reading(config, "the settings of a tokenizer"):
            literal = _read(config).get("unknown_literal") if config.exists() else None
        with reading(path, "a tokenizer"):
            return cls(_read(path), texts, literal)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, from its classification token to its separator."""
        first, last = self.special_ids.cls, self.special_ids.sep
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [[first, *encoding.ids, last] for encoding in encodings]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of one text as `encode` gives them, and the characters [start, end) of
        each; (0, 0) for the two special ones, an empty range for a space put before the text."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        offsets = [
            (a, a) if piece == METASPACE and text[a:b].strip(METASPACE + " ") else (a, b)
            for piece, (a, b) in zip(encoding.tokens, encoding.offsets, strict=True)
        ]
        first, last = self.special_ids.cls, self.special_ids.sep
        return [first, *encoding.ids, last], [(0, 0), *offsets, (0, 0)]

    def unknown_parts(self, texts: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of tokens of each text, and its unknown parts but unknown literals."""
        unknown = self.special_ids.unk
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            offsets = zip(encoding.ids, encoding.offsets, strict=True)
            parts = [text[a:b].strip() for i, (a, b) in offsets if i == unknown]
            yield len(encoding), [part for part in parts if part != self.unknown_literal]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `ids`, with or without the special tokens in it."""
        return self._whole.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def count_special_literals(self, texts: Sequence[str]) -> int:
        """Count the strings of special tokens in `texts`, which stay text here."""
        literals = [s for s in self.literals if s != self.unknown_literal]
        return sum(text.count(literal) for text in texts for literal in literals)

    def names(self) -> dict[int, str]:
        """Return the piece of each id."""
        return {i: piece for piece, i in self._whole.get_vocab().items()}


def _read(path: Path) -> Any:
    if not path.exists():
        raise MlmError(f"{path} is missing: expected a directory with {', '.join(TOKENIZER_FILES)}")
    return read_json(path)


def _parsed(tokenizer: dict) -> Any:
    import tokenizers

    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer))


def _disarmed(
    tokenizer: dict, literals: Sequence[str], unknown_literal: str | None, unknown_id: int
) -> dict:
    """Return a copy of a tokenizer.json in which `literals` are unreachable, ids unchanged; only
    `unknown_literal`, with the space before it, becomes the unknown token. `encode_special_tokens`
    alone does not suffice: a model still has `[MASK]` among its pieces."""
    # Pre-tokenizers split at spaces or replace them; the noncharacter makes sure that no text
    # matches such a name.
    names = {text: f"\ufdd0 {text}" for text in filter(None, (*literals, unknown_literal))}
    copy = json.loads(json.dumps(tokenizer))
    copy.update(truncation=None, padding=None, post_processor=None)
    model = copy["model"]
    if model.get("unk_token") in literals:
        model["unk_token"] = names[model["unk_token"]]
    for token in copy["added_tokens"]:
        if token["content"] in literals:
            token.update(content=names[token["content"]], special=True)
    if unknown_literal is not None:
        others = [token for token in copy["added_tokens"] if token["id"] != unknown_id]
        flags = dict.fromkeys(("single_word", "rstrip", "normalized", "special"), False)
        unknown = {"id": unknown_id, "content": unknown_literal, "lstrip": True, **flags}
        copy["added_tokens"] = [*others, unknown]

    def name_of(piece: str, i: int) -> str:
        if unknown_literal is not None and i == unknown_id:
            return unknown_literal
        return names.get(piece, piece)

    if isinstance(model["vocab"], list):
        model["vocab"] = [[name_of(p, i), score] for i, (p, score) in enumerate(model["vocab"])]
    else:
        model["vocab"] = {name_of(piece, i): i for piece, i in model["vocab"].items()}
        if unknown_literal is not None:
            model["unk_token"] = unknown_literal
    return copy


def write_tokenizer(
    directory: Path,
    tokenizer: dict,
    special_tokens: dict[str, str],
    unknown_literal: str | None,
    model_max_length: int | None = None,
) -> None:
    """Write the three files of transformers into `directory`, each atomically; `special_tokens` has
    the five texts by name. The key `unknown_literal` is this project's, for `Encoder.load`."""
    tokens = {f"{name}_token": special_tokens[name] for name in SPECIAL_NAMES}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "added_tokens_decoder": {
            str(token["id"]): {flag: token[flag] for flag in _FLAGS}
            for token in tokenizer["added_tokens"]
        },
        "unknown_literal": unknown_literal,
        **tokens,
    }
    if model_max_length is not None:
        config["model_max_length"] = model_max_length
    for name, content in zip(TOKENIZER_FILES, (tokenizer, config, tokens), strict=True):
        write_text(directory / name, canonical_json(content))


def copy_tokenizer(source: Path, target: Path, model_max_length: int) -> None:
    """Copy a saved tokenizer beside a model, to whose `model_max_length` transformers truncates."""
    for name in TOKENIZER_FILES:
        content = read_json(source / name)
        if name == "tokenizer_config.json":
            content["model_max_length"] = model_max_length
        write_text(target / name, canonical_json(content))
