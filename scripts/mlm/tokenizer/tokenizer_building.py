"""The stage from the corpus to the tokenizer's files and its statistics."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlm.config.tokenizer import Tokenizer
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.tokenizer.artefacts import FrequentToken, Pretrained, SplitStatistics, TokenizerStatistics
from mlm.tokenizer.encoding import Encoder, write_tokenizer
from mlm.tokenizer.pretrained import check_ids, load_pretrained
from mlm.tokenizer.training import train_tokenizer

#: Number of the most frequent tokens that are shown.
_TOP = 20
#: Bytes of a split's text that are measured; a larger one gives stretches at equal distances.
MOST_BYTES = 200_000_000
#: Largest share of tokens or of characters that may be unknown. A vocabulary that suits its text
#: stays far below 1 %; with 5 %, a sample of 64 tokens has three that teach nothing but "unknown".
_LARGEST_UNKNOWN_SHARE = 0.05
#: A token has about so many characters: each that character_coverage leaves out spoils one.
_CHARACTERS_A_TOKEN = 5
#: Bytes of text that are searched for unknown parts, and parts that are explained.
_SEARCHED_BYTES, _EXPLAINED_PARTS = 5_000_000, 500


def make_tokenizer(
    corpora: Mapping[str, SplitDocuments],
    section: Tokenizer,
    families: Iterable[str],
    tokenizer: Path,
    stats: Path,
) -> TokenizerStatistics:
    """Train or load the tokenizer of `section`, write the file `tokenizer`, those beside it, and
    its statistics `stats`, and return these. `families` are the model types that will read the ids.
    Raises MlmError before anything is written, for much unknown text too."""
    training = pretrained = longest = None
    if section.kind == "pretrained":
        path, revision = str(section.pretrained.path), section.pretrained.revision
        content, special, longest = load_pretrained(path, revision)
        # Of a directory, its name: its place on this machine is no part of the result.
        pretrained = Pretrained(Path(path).name if Path(path).is_dir() else path, revision)
    else:
        content, training = train_tokenizer(corpora["train"], section)
        special = section.special_tokens.model_dump()
    encoder = Encoder(content, special, section.unknown_literal)
    for family in families:
        check_ids(encoder, family)
    splits, counts = {}, {}
    for split, corpus in corpora.items():
        counts[split], splits[split] = _split_statistics(encoder, corpus)
    if splits["train"].unknown:
        _refuse_unknown_text(encoder, content["model"], corpora["train"], section)
    write_tokenizer(tokenizer.parent, content, special, section.unknown_literal, longest)
    statistics = TokenizerStatistics(
        kind=section.kind,
        vocabulary_size=encoder.vocabulary_size,
        byte_fallback=bool(content["model"].get("byte_fallback")),
        special_ids=encoder.special(),
        unknown_literal=encoder.unknown_literal,
        splits=splits,
        most_frequent=_most_frequent(encoder, counts["train"]),
        training=training,
        pretrained=pretrained,
    )
    statistics.write(stats)
    return statistics


def _split_statistics(
    encoder: Encoder, corpus: SplitDocuments
) -> tuple[np.ndarray, SplitStatistics]:
    """Return the count of each id, [vocabulary], and the figures of one split."""
    counts = np.zeros(encoder.vocabulary_size, np.int64)
    words = size = characters = literals = 0
    share = corpus.evenly(MOST_BYTES)
    for texts in corpus.texts(share=share):
        for ids in encoder.encode(texts):
            counts += np.bincount(ids[1:-1], minlength=len(counts))
        literals += encoder.count_special_literals(texts)
        words += sum(len(text.split()) for text in texts)
        characters += sum(map(len, texts))
        size += sum(len(text.encode()) for text in texts)
    tokens, unknown = int(counts.sum()), int(counts[encoder.special_ids.unk])
    return counts, SplitStatistics(
        tokens=tokens,
        words=words,
        bytes=size,
        characters=characters,
        tokens_per_word=tokens / words if words else None,
        tokens_per_byte=tokens / size if size else None,
        unknown=unknown,
        unknown_rate=unknown / tokens if tokens else None,
        vocabulary_used=int(np.count_nonzero(counts)),
        special_literals=literals,
        sampled=None if share.is_all else True,
    )


def _most_frequent(encoder: Encoder, counts: np.ndarray) -> list[FrequentToken]:
    names = encoder.names()
    order = np.argsort(-counts, kind="stable")[:_TOP].tolist()
    return [FrequentToken(i, names[i], int(counts[i])) for i in order if counts[i]]


def _refuse_unknown_text(
    encoder: Encoder, model: dict[str, Any], train: SplitDocuments, section: Tokenizer
) -> None:
    """Raise MlmError if too many tokens of `train`, or tokens with too many of its characters, are
    unknown; `model` is that of the tokenizer.json. The unknown literal does not count."""
    tokens = characters = 0
    parts: Counter[str] = Counter()
    for texts in train.texts(share=train.evenly(_SEARCHED_BYTES)):
        characters += sum(map(len, texts))
        for count, unknown in encoder.unknown_parts(texts):
            tokens += count
            parts.update(unknown)
    of_tokens = parts.total() / max(tokens, 1)
    of_characters = sum(len(part) * n for part, n in parts.items()) / max(characters, 1)
    by_choice = _CHARACTERS_A_TOKEN * (1 - section.character_coverage)
    largest = max(_LARGEST_UNKNOWN_SHARE, by_choice)
    if max(of_tokens, of_characters) > largest:
        raise MlmError(
            f"The tokenizer reads {of_tokens:.1%} of the tokens and {of_characters:.1%} of the "
            f"characters of the train split as unknown, more than {largest:.0%}. "
            f"{_cause(encoder, model, parts, section)}"
        )


def _cause(encoder: Encoder, model: dict[str, Any], parts: Counter[str], section: Tokenizer) -> str:
    """Return the most likely cause of unknown `parts`, and what to do."""
    most = [part for part, _ in parts.most_common(_EXPLAINED_PARTS)]
    longest = model.get("max_input_chars_per_word", 100) if model["type"] == "WordPiece" else None
    if longest and 2 * sum(len(part) > longest for part in most) >= len(most):
        return (
            f"WordPiece reads a word of more than {longest} characters as unknown, and there are "
            "such words. Set tokenizer.kind: unigram or bpe, which have no limit"
        )
    for form in ("NFC", "NFD"):
        again = encoder.unknown_parts([unicodedata.normalize(form, part) for part in most])
        if 2 * sum(bool(unknown) for _, unknown in again) < len(most):
            return (
                "Most is known in another Unicode form, in which the vocabulary is: set "
                f"corpus.filters.normalisation: {form}"
            )
    remedy = (
        "Choose a tokenizer made for such text, or train one (tokenizer.kind: unigram or bpe)"
        if section.kind == "pretrained"
        else "Raise tokenizer.character_coverage, or set tokenizer.byte_fallback: true (unigram "
        "and bpe)"
    )
    return f"The vocabulary lacks {', '.join(map(repr, most[:10]))}. {remedy}"
