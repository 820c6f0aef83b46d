"""The stage from the corpus to the tokenizer's files, and how well it fits the text."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlm.config.tokenizer import Tokenizer
from mlm.corpus.split_documents import SplitDocuments
from mlm.tokenizer.artefacts import FrequentToken, Pretrained, SplitStatistics, TokenizerStatistics
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.pretrained import check_ids, load_pretrained
from mlm.tokenizer.tokenizer_files import write_tokenizer
from mlm.tokenizer.training import train_tokenizer
from mlm.tokenizer.unknown_text import refuse_unknown_text

#: Tokens that are shown as the most frequent.
_TOP = 20
#: Bytes of a split's text that are measured; a larger one gives stretches at equal distances.
MOST_BYTES = 200_000_000


def make_tokenizer(
    corpora: dict[str, SplitDocuments],
    section: Tokenizer,
    families: list[str],
    outputs: Any,
) -> TokenizerStatistics:
    """Train or load the tokenizer of `section`; write its files and `tokenizer_stats.json`, once
    all is known to be right, and return its content. `families` are the model types that will read
    the ids; `outputs` has the paths `tokenizer` and `stats`. Much unknown text is refused."""
    if section.kind == "pretrained":
        path, revision = section.pretrained.path, section.pretrained.revision
        content, special, longest = load_pretrained(path, revision)
        # Of a directory, its name: its place on this machine is no part of the result.
        name = Path(path).name if Path(path).is_dir() else path
        origin = {
            "byte_fallback": bool(content["model"].get("byte_fallback")),
            "training": None,
            "pretrained": Pretrained(name, revision),
        }
    else:
        content, text = train_tokenizer(corpora["train"], section)
        special, longest = section.special_tokens.model_dump(), None
        origin = {"byte_fallback": section.byte_fallback, "training": text}
    encoder = Encoder(content, special, section.unknown_literal)
    for family in families:
        check_ids(encoder, family)
    statistics = tokenizer_statistics(encoder, corpora, origin | {"kind": section.kind})
    if statistics.splits["train"].unknown:
        refuse_unknown_text(encoder, content["model"], corpora["train"], section)
    directory = Path(outputs.tokenizer).parent
    write_tokenizer(directory, content, special, section.unknown_literal, longest)
    statistics.write(outputs.stats)
    return statistics


def tokenizer_statistics(
    encoder: Encoder, corpora: dict[str, SplitDocuments], origin: dict[str, Any]
) -> TokenizerStatistics:
    """The content of tokenizer_stats.json; `origin` says where the tokenizer came from."""
    splits, frequent, names = {}, [], encoder.names()
    for split, corpus in corpora.items():
        share = corpus.evenly(MOST_BYTES)
        counts, splits[split] = _split_statistics(encoder, corpus.texts(share=share))
        if not share.is_all:
            splits[split] = replace(splits[split], sampled=True)
        if split == "train":
            order = np.lexsort((np.arange(len(counts)), -counts))[:_TOP].tolist()
            frequent = [FrequentToken(i, names[i], int(counts[i])) for i in order if counts[i]]
    return TokenizerStatistics(
        vocabulary_size=encoder.vocabulary_size,
        special_ids=encoder.special(),
        unknown_literal=encoder.unknown_literal,
        splits=splits,
        most_frequent=frequent,
        **origin,
    )


def _split_statistics(
    encoder: Encoder, batches: Iterable[list[str]]
) -> tuple[np.ndarray, SplitStatistics]:
    """The count of each id, [vocabulary], and the figures of one split."""
    counts = np.zeros(encoder.vocabulary_size, np.int64)
    words = size = characters = literals = 0
    for texts in batches:
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
    )
