"""The pieces of a tokenizer: which of them start a word, and how each reads."""

import json
from typing import TYPE_CHECKING

from mlm.foundations.errors import MlmError

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedTokenizerFast

#: In place of the space before a word in sentencepiece's vocabularies.
METASPACE = "▁"
#: The same in byte-level BPE: the space byte, moved to a printable character.
BYTE_SPACE = "Ġ"


def word_starts(tokenizer_json: dict) -> "np.ndarray":
    """Return whether a word starts with each id, bool [vocabulary]; False for added special tokens.
    The mark is ▁ (Metaspace), Ġ (byte-level), or no continuation prefix (WordPiece)."""
    # Here, since the plan imports this module with Snakemake's packages alone.
    import numpy as np

    pieces, model = pieces_by_id(tokenizer_json), tokenizer_json["model"]
    special = {t["content"] for t in tokenizer_json.get("added_tokens", ()) if t.get("special")}
    steps = json.dumps([tokenizer_json.get(step) for step in ("pre_tokenizer", "decoder")])
    mark = BYTE_SPACE if '"ByteLevel"' in steps else METASPACE
    if model.get("type") == "WordPiece":
        prefix = model.get("continuing_subword_prefix") or "##"
        starts = [bool(p) and not p.startswith(prefix) for p in pieces]
    elif mark == BYTE_SPACE or any(p.startswith(mark) for p in pieces):
        starts = [p.startswith(mark) for p in pieces]
    else:
        starts = [bool(p) for p in pieces]
    return np.array([s and p not in special for s, p in zip(starts, pieces, strict=True)], bool)


def word_numbers(pieces: list[str], word_ids: list[int | None]) -> list[int]:
    """Return the number of the word of each of `pieces`, -1 of special tokens without one: by
    `word_ids` of the encoding, and by each ▁ if no pre-tokenizer divides a text."""
    numbers, number, before = [], -1, None
    for piece, word in zip(pieces, word_ids, strict=True):
        if word is not None and (word != before or piece.startswith(METASPACE)):
            number += 1
        numbers.append(-1 if word is None else number)
        before = word
    return numbers


def pieces_by_id(tokenizer_json: dict) -> list[str]:
    """Return the piece of each id, "" if there is none. Raises MlmError if most ids have none:
    tables have a row for each, and one token of id 10⁸ makes them larger than the memory."""
    vocabulary = tokenizer_json["model"]["vocab"]
    if isinstance(vocabulary, dict):
        by_id = {i: p for p, i in vocabulary.items()}
    else:
        by_id = {i: p for i, (p, _) in enumerate(vocabulary)}
    by_id |= {t["id"]: t["content"] for t in tokenizer_json.get("added_tokens", ())}
    if (ids := max(by_id) + 1) > 2 * len(by_id):
        raise MlmError(
            f"The tokenizer has {len(by_id):,} pieces, but ids up to {ids - 1:,}: most ids would "
            "have no piece. Number its pieces without gaps, or choose another tokenizer"
        )
    return [by_id.get(i, "") for i in range(ids)]


def texts_of(tokenizer: "PreTrainedTokenizerFast", ids: list[int]) -> list[str]:
    """Return each of `ids` as it reads in running text, with the space before a word. A byte that
    is only part of a character reads as U+FFFD."""
    pieces = tokenizer.convert_ids_to_tokens(ids)
    return [_text(tokenizer, i, p or "") for i, p in zip(ids, pieces, strict=True)]


def _text(tokenizer: "PreTrainedTokenizerFast", token_id: int, piece: str) -> str:
    if token_id in tokenizer.all_special_ids:
        return piece
    if piece.startswith(METASPACE):
        return piece.replace(METASPACE, " ")
    if piece.startswith("##"):
        return piece[2:]
    decoded = str(tokenizer.decode([token_id], clean_up_tokenization_spaces=False))
    if decoded.startswith(" "):
        return decoded
    # WordPiece decoders join words with spaces that no piece carries.
    kind = type(tokenizer.backend_tokenizer.model).__name__
    return " " + decoded if kind == "WordPiece" else decoded
