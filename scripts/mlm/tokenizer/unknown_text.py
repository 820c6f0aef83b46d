"""Refusal of a tokenizer that reads much of the training text as unknown, with the cause."""

import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mlm.config.tokenizer import Tokenizer
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder

#: Largest share of tokens or of characters that may be unknown. A vocabulary that suits its text
#: stays far below 1 %; with 5 %, a sample of 64 tokens has three that teach nothing but "unknown".
_LARGEST_SHARE = 0.05
#: A token has about so many characters: each that character_coverage leaves out spoils one.
_CHARACTERS_A_TOKEN = 5
#: Bytes of text that are looked through for unknown parts, and parts that are explained.
_MOST_BYTES, _MOST_PARTS = 5_000_000, 500


def refuse_unknown_text(
    encoder: Encoder, model: dict[str, Any], train: SplitDocuments, section: Tokenizer
) -> None:
    """Raise MlmError if too many tokens of `train`, or tokens with too many of its characters, are
    unknown; `model` is that of the tokenizer.json. The unknown literal does not count."""
    tokens = characters = 0
    parts: Counter[str] = Counter()
    for texts in train.texts(share=train.evenly(_MOST_BYTES)):
        characters += sum(map(len, texts))
        for count, unknown in encoder.unknown_parts(texts):
            tokens += count
            parts.update(unknown)
    of_tokens = parts.total() / max(tokens, 1)
    of_characters = sum(len(part) * n for part, n in parts.items()) / max(characters, 1)
    by_choice = _CHARACTERS_A_TOKEN * (1 - section.character_coverage)
    largest = max(_LARGEST_SHARE, by_choice)
    if max(of_tokens, of_characters) > largest:
        causes = " ".join(_causes(encoder, model, parts, section))
        raise MlmError(
            f"The tokenizer reads {of_tokens:.1%} of the tokens and {of_characters:.1%} of the "
            f"characters of the train split as unknown, more than {largest:.0%}. {causes}"
        )


def _causes(
    encoder: Encoder, model: dict[str, Any], parts: Counter[str], section: Tokenizer
) -> Iterator[str]:
    """Yield a sentence for each cause, with what to do."""
    ready, trained = section.kind == "pretrained", "tokenizer.kind: unigram or bpe"
    longest = model.get("max_input_chars_per_word", 100) if model["type"] == "WordPiece" else None
    short = [part for part in parts if longest is None or len(part) <= longest]
    if too_long := sum(parts.values()) - sum(parts[part] for part in short):
        yield (
            f"WordPiece reads a word of more than {longest} characters as unknown, and there are "
            f"{too_long:,} (long stretches without spaces). Set {trained}, which have no limit."
        )
    short = sorted(short, key=lambda part: (-parts[part], part))[:_MOST_PARTS]
    for form in ("NFC", "NFD"):
        again = encoder.unknown_parts([unicodedata.normalize(form, part) for part in short])
        if short and sum(not unknown for _, unknown in again) > len(short) / 2:
            yield (
                "Most is known in another Unicode form, in which the vocabulary is: set "
                f"corpus.filters.normalisation: {form}."
            )
            return
    alone = sorted({c for part in short for c in part if not c.isspace()})
    lacking = [
        c for c, (_, unknown) in zip(alone, encoder.unknown_parts(alone), strict=True) if unknown
    ]
    if short:
        words = ", ".join(map(repr, lacking[:10])) + ", …" * (len(lacking) > 10)
        instead = (
            f"choose a tokenizer made for such text, or train one ({trained})"
            if ready
            else "raise tokenizer.character_coverage, or set tokenizer.byte_fallback: true "
            "(unigram and bpe)"
        )
        yield (
            f"The vocabulary lacks the characters {words}: {instead}."
            if lacking
            else f"The vocabulary lacks pieces of words such as {short[0]!r}: {instead}."
        )
