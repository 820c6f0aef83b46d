"""Unigram pieces and their scores, by sentencepiece's trainer (Kudo, 2018, arXiv 1804.10959).

The trainer of `tokenizers` gives other scores and another order of the ids on every run;
sentencepiece gives the same bytes as long as the number of its threads stays the same. It is
given every word once, with its number, in the order in which they first occur: no piece spans
words, so whole sentences would say no more and take longer to read and to sort.
"""

import io
import os
import re
from collections import Counter
from collections.abc import Iterable
from types import ModuleType

from mlm.foundations.errors import MlmError
from mlm.tokenizer.pieces import METASPACE
from mlm.tokenizer.tokenizer_settings import (
    NO_TEXT,
    AlphabetTooLarge,
    CorpusTooSmall,
    TokenizerSettings,
)

_TOO_HIGH = re.compile(r"Vocabulary size too high \((\d+)\).*value <= (\d+)")
_TOO_LOW = re.compile(r"smaller than required_chars\. (\d+) vs (\d+)")


def train_unigram(sentences: Iterable[str], settings: TokenizerSettings) -> list[tuple[str, float]]:
    """Pieces and log probabilities, most probable first, without special tokens and bytes.

    There are `settings.vocabulary_size` of them less the ids of those; the boundaries of
    `mlm.tokenizer.training_text` are not among them. Raises MlmError for a corpus with too little
    text, or too many characters, for the vocabulary.
    """
    model = sentencepiece_model(sentences, settings)
    trained = imported_sentencepiece().SentencePieceProcessor(model_proto=model)
    return [(trained.id_to_piece(i), trained.get_score(i)) for i in range(1, len(trained))]


def sentencepiece_model(sentences: Iterable[str], settings: TokenizerSettings) -> bytes:
    """What sentencepiece's trainer writes: the pieces of `train_unigram` after `<unk>`."""
    model = io.BytesIO()
    try:
        imported_sentencepiece().SentencePieceTrainer.Train(
            sentence_iterator=iter(
                f"{word}\t{count}" for word, count in word_counts(sentences, settings).items()
            ),
            input_format="tsv",
            model_writer=model,
            model_type="unigram",
            vocab_size=settings.vocabulary_size - settings.reserved + 1,
            character_coverage=settings.character_coverage,
            num_threads=settings.training_threads,
            normalization_rule_name="identity",
            add_dummy_prefix=not settings.byte_fallback,
            max_sentence_length=1 << 20,
            train_extremely_large_corpus=settings.max_training_bytes > 1 << 30,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _refusal(str(error), settings) from None
    return model.getvalue()


def imported_sentencepiece() -> ModuleType:
    """The package, whose OpenMP threads sleep while they wait.

    By default they spin: where another process has one of the cores, sorting the suffixes then
    takes ten times as long. OpenMP reads the setting when the package is first imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import sentencepiece

    return sentencepiece


def word_counts(sentences: Iterable[str], settings: TokenizerSettings) -> Counter[str]:
    """How often each word occurs, in the order of the first occurrences.

    sentencepiece puts its mark for a space before each, except with byte fallback: there, the
    words after the first of a sentence bring METASPACE themselves, and the first, which
    encoding puts no space before, has none. Spaces at the ends of lines and in runs are left
    out: they would make the lone mark so probable that words are spelled as the mark and the
    rest ("▁", "and"). Encoding keeps them.
    """
    counts: Counter[str] = Counter()
    for sentence in sentences:
        words = [word for word in sentence.split(" ") if word]
        if settings.byte_fallback:
            words[1:] = [METASPACE + word for word in words[1:]]
        counts.update(words)
    return counts


def _refusal(message: str, settings: TokenizerSettings) -> MlmError:
    """A refusal of sentencepiece's trainer, with what a user can do about it."""
    others = settings.reserved - 1
    if match := _TOO_HIGH.search(message):
        return CorpusTooSmall(int(match[2]) + others, settings)
    if match := _TOO_LOW.search(message):
        return AlphabetTooLarge(int(match[2]) + others, settings)
    if "sentences_.empty()" in message:
        return MlmError(NO_TEXT)
    return MlmError(f"The tokenizer could not be trained; sentencepiece says: {message}")
