"""The stage from the corpus to the tokenizer's files and its statistics."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from mlm.config.tokenizer import Tokenizer
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.tokenizer.artefacts import Pretrained, SplitStatistics, TokenizerStatistics
from mlm.tokenizer.encoding import Encoder, write_tokenizer
from mlm.tokenizer.pretrained import check_ids, load_pretrained
from mlm.tokenizer.vocabulary_training import train_tokenizer

#: Bytes of a split's text that are measured; a larger one gives stretches at equal distances.
MOST_BYTES = 200_000_000
#: Largest share of tokens or of characters that may be unknown. A vocabulary that suits its text
#: stays far below 1 %; with 5 %, a sample of 64 tokens has three that teach nothing but "unknown".
_LARGEST_UNKNOWN_SHARE = 0.05
#: A token has about so many characters: each that character_coverage leaves out spoils one.
_CHARACTERS_A_TOKEN = 5
#: Bytes of text that are searched for unknown parts.
_SEARCHED_BYTES = 5_000_000


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
    splits = {split: _split_statistics(encoder, corpus) for split, corpus in corpora.items()}
    if splits["train"].unknown:
        _refuse_unknown_text(encoder, corpora["train"], section)
    write_tokenizer(tokenizer.parent, content, special, section.unknown_literal, longest)
    statistics = TokenizerStatistics(
        kind=section.kind,
        vocabulary_size=encoder.vocabulary_size,
        special_ids=encoder.special_ids._asdict(),
        unknown_literal=encoder.unknown_literal,
        splits=splits,
        training=training,
        pretrained=pretrained,
    )
    statistics.write(stats)
    return statistics


def _split_statistics(encoder: Encoder, corpus: SplitDocuments) -> SplitStatistics:
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
    return SplitStatistics(
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


def _refuse_unknown_text(encoder: Encoder, train: SplitDocuments, section: Tokenizer) -> None:
    """Raise MlmError if too many tokens of `train`, or tokens with too many of its characters, are
    unknown. The unknown literal does not count."""
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
        most = ", ".join(repr(part) for part, _ in parts.most_common(10))
        raise MlmError(
            f"The tokenizer reads {of_tokens:.1%} of the tokens and {of_characters:.1%} of the "
            f"characters of the train split as unknown, more than {largest:.0%}: {most}. Set "
            "corpus.filters.normalisation: NFC if the vocabulary has composed characters, raise "
            "tokenizer.character_coverage, choose a tokenizer made for such text, or another kind "
            "than wordpiece, for which long words are unknown"
        )
