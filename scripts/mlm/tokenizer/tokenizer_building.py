"""The stage from the corpus to the tokenizer's files and its statistics."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from mlm.config.tokenizer import Tokenizer
from mlm.corpus.split_documents import SplitDocuments
from mlm.tokenizer.artefacts import FrequentToken, Pretrained, SplitStatistics, TokenizerStatistics
from mlm.tokenizer.encoding import Encoder, write_tokenizer
from mlm.tokenizer.pretrained import check_ids, load_pretrained
from mlm.tokenizer.training import train_tokenizer
from mlm.tokenizer.unknown_text import refuse_unknown_text

#: Number of the most frequent tokens that are shown.
_TOP = 20
#: Bytes of a split's text that are measured; a larger one gives stretches at equal distances.
MOST_BYTES = 200_000_000


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
        path, revision = section.pretrained.path, section.pretrained.revision
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
        refuse_unknown_text(encoder, content["model"], corpora["train"], section)
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
    order = np.lexsort((np.arange(len(counts)), -counts))[:_TOP].tolist()
    return [FrequentToken(i, names[i], int(counts[i])) for i in order if counts[i]]
