"""From text to token ids with a saved tokenizer, where corpus text is never a command.

A tokenizer turns the string `[MASK]` into the mask token, wherever it stands. That is wanted
in a prompt and wrong in a corpus, where the string is text like any other. The encoder here
therefore works on a copy of the tokenizer whose special tokens have names that no text can
match, and puts the special tokens around each document by itself. The saved files are not
changed: through transformers, `[MASK]` is the mask token.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mlm.foundations.atomic import read_json
from mlm.foundations.errors import MlmError, reading
from mlm.tokenizer.pieces import METASPACE

#: Names of the special tokens, in the order of the ids that a tokenizer trained here gives.
SPECIAL_NAMES = ("cls", "pad", "sep", "unk", "mask")


class SpecialIds(NamedTuple):
    """The ids of the five special tokens."""

    cls: int
    pad: int
    sep: int
    unk: int
    mask: int


class Encoder:
    """Encodes documents with a saved tokenizer; see the module's description.

    Attributes:
        vocabulary_size: one more than the largest id.
        special_ids: the five special tokens' ids.
        special_tokens: the five special tokens' texts, by name.
        literals: all strings that are special tokens, which the corpus may hold as text.
        unknown_literal: the string that is read as an unknown word, or None.
    """

    def __init__(
        self, tokenizer: dict, special_tokens: dict[str, str], unknown_literal: str | None = None
    ):
        """From a tokenizer.json's content, the texts of the five special tokens by name
        (cls, pad, sep, unk, mask), and the string that stands for an unknown word.

        Raises MlmError if a special token is missing.
        """
        self._whole = _parsed(tokenizer)
        vocabulary = self._whole.get_vocab(with_added_tokens=True)
        self.vocabulary_size = max(vocabulary.values(), default=-1) + 1
        missing = [
            f"{name} ({special_tokens.get(name)!r})"
            for name in SPECIAL_NAMES
            if special_tokens.get(name) not in vocabulary
        ]
        if missing:
            raise MlmError(
                f"The tokenizer lacks special tokens: {', '.join(missing)}. A masked language "
                f"model needs all of {', '.join(SPECIAL_NAMES)}; choose a tokenizer that has "
                "them, or train one (tokenizer.kind)."
            )
        self.special_tokens = {name: special_tokens[name] for name in SPECIAL_NAMES}
        self.special_ids = SpecialIds(**{n: vocabulary[special_tokens[n]] for n in SPECIAL_NAMES})
        self.unknown_literal = unknown_literal
        special = {t["content"] for t in tokenizer["added_tokens"] if t["special"]}
        self.literals = tuple(sorted(special | set(self.special_tokens.values())))
        self._tokenizer = _parsed(
            _disarmed(tokenizer, self.literals, unknown_literal, self.special_ids.unk)
        )
        self._tokenizer.encode_special_tokens = True

    @classmethod
    def load(cls, tokenizer_json: str | os.PathLike) -> "Encoder":
        """The encoder of a saved tokenizer.

        `special_tokens_map.json` and `tokenizer_config.json` are read from the same
        directory; the latter's `unknown_literal` is what `tokenizer.unknown_literal` was.
        Raises MlmError for a file that is missing or no tokenizer.
        """
        path = Path(tokenizer_json)
        tokens, config = (
            path.with_name("special_tokens_map.json"),
            path.with_name("tokenizer_config.json"),
        )
        with reading(tokens, "the special tokens of a tokenizer"):
            content = _read(tokens)
            texts = {name: token_text(content[f"{name}_token"]) for name in SPECIAL_NAMES}
        with reading(config, "the configuration of a tokenizer"):
            literal = _read(config).get("unknown_literal") if config.exists() else None
        with reading(path, "a tokenizer"):
            return cls(_read(path), texts, literal)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, from its classification token to its separator."""
        first, last = self.special_ids.cls, self.special_ids.sep
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [[first, *encoding.ids, last] for encoding in encodings]

    def encode_with_places(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of one text as `encode` gives them, and for each the characters of `text` that it
        stands for, [start, end); (0, 0) for the two special ones.

        The space that some tokenizers put before a text is no character of it: a piece that is
        this space alone has an empty range, where the tokenizer gives the character after it.
        """
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        places = [
            (a, a) if piece == METASPACE and text[a:b].strip(METASPACE + " ") else (a, b)
            for piece, (a, b) in zip(encoding.tokens, encoding.offsets, strict=True)
        ]
        first, last = self.special_ids.cls, self.special_ids.sep
        return [first, *encoding.ids, last], [(0, 0), *places, (0, 0)]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of `ids`, with or without the special tokens in it."""
        return self._whole.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def count_special_literals(self, texts: Sequence[str]) -> int:
        """How often the texts hold a string that is a special token, and stays text here.

        The string that is mapped to the unknown token is not among them.
        """
        literals = [s for s in self.literals if s != self.unknown_literal]
        return sum(text.count(literal) for text in texts for literal in literals)

    def names(self) -> dict[int, str]:
        """The name of each id, as the tokenizer's vocabulary has it."""
        return {i: piece for piece, i in self._whole.get_vocab().items()}

    def pieces(self) -> list[str]:
        """The names of all ids but the special ones, in the order of the ids."""
        return [p for _, p in sorted(self.names().items()) if p not in self.literals]

    def special(self) -> dict[str, int]:
        """The five special ids by name, for JSON."""
        return self.special_ids._asdict()


def _read(path: Path) -> Any:
    """The value in one JSON file of a tokenizer; MlmError if it is missing or damaged."""
    try:
        with reading(path, "JSON"):
            return read_json(path)
    except FileNotFoundError:
        raise MlmError(
            f"{path} is missing: a tokenizer is a directory with tokenizer.json, "
            "tokenizer_config.json and special_tokens_map.json."
        ) from None


def _parsed(tokenizer: dict) -> Any:
    """The `tokenizers.Tokenizer` of a tokenizer.json's content."""
    import tokenizers

    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer))


def token_text(token: Any) -> str | None:
    """The text of a special token as transformers saves it: a string or an object."""
    return token.get("content") if isinstance(token, dict) else token


def _unmatchable(text: str) -> str:
    """A name for the special token `text` that no model finds in a text.

    Every pre-tokenizer in use splits at spaces or replaces them, so that no word reaches the
    model with a space in it; the noncharacter makes sure of the rest.
    """
    return f"\ufdd0 {text}"


def _disarmed(
    tokenizer: dict, literals: Sequence[str], unknown_literal: str | None, unknown_id: int
) -> dict:
    """A copy of a tokenizer.json in which `literals` are unreachable, ids unchanged; only
    `unknown_literal` in a text, with the space before it, becomes the unknown token.

    `encode_special_tokens` alone keeps only the added-token step from matching them: a
    model still finds `[MASK]` among its own pieces. Truncation, padding and the post-processor are
    dropped as well, since `Encoder.encode` puts in the special tokens.
    """
    copy = json.loads(json.dumps(tokenizer))
    copy.update(truncation=None, padding=None, post_processor=None)
    names = {text: _unmatchable(text) for text in literals}
    model = copy["model"]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    for token in copy["added_tokens"]:
        if token["content"] in names:
            token.update(content=names[token["content"]], special=True)
    if unknown_literal is not None:
        names[unknown_literal] = _unmatchable(unknown_literal)
        others = [token for token in copy["added_tokens"] if token["id"] != unknown_id]
        flags = dict.fromkeys(("single_word", "rstrip", "normalized", "special"), False)
        copy["added_tokens"] = [
            *others,
            {"id": unknown_id, "content": unknown_literal, "lstrip": True, **flags},
        ]

    def name_of(piece: str, i: int) -> str:
        unknown = unknown_literal is not None and i == unknown_id
        return unknown_literal if unknown else names.get(piece, piece)

    if isinstance(model["vocab"], list):
        model["vocab"] = [[name_of(p, i), score] for i, (p, score) in enumerate(model["vocab"])]
    else:
        model["vocab"] = {name_of(piece, i): i for piece, i in model["vocab"].items()}
        if unknown_literal is not None:
            model["unk_token"] = unknown_literal
    return copy
