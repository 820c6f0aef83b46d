"""Unigram pieces and their scores, by sentencepiece's trainer (Kudo, 2018, arXiv 1804.10959).

The trainer of `tokenizers` gives other scores on every run; sentencepiece gives the same bytes for
a number of threads. It gets every word once, with its count: no piece spans words.
"""

import io
import os
import re
from collections import Counter
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from mlm.config.tokenizer import Tokenizer
from mlm.foundations.errors import MlmError
from mlm.tokenizer.pieces import METASPACE
from mlm.tokenizer.training_text import (
    BYTE_PIECES,
    NO_TEXT,
    AlphabetTooLarge,
    CorpusTooSmall,
    TrainingText,
)

#: sentencepiece leaves its unknown piece, "<unk>" by default, out of the text that it learns from.
_NO_TEXT_HAS = "\ufdd0"
_TOO_HIGH = re.compile(r"Vocabulary size too high \((\d+)\).*value <= (\d+)")
_TOO_LOW = re.compile(r"smaller than required_chars\. (\d+) vs (\d+)")


def train_unigram(text: TrainingText, section: Tokenizer) -> Any:
    """Train a `tokenizers.models.Unigram` of special tokens, bytes, pieces with the most probable
    first, and the boundaries that occur. Raises MlmError for too little text, or too many
    characters."""
    from tokenizers import models

    model = sentencepiece_model(text, section)
    trained = _sentencepiece().SentencePieceProcessor(model_proto=model)
    learned = [(trained.id_to_piece(i), trained.get_score(i)) for i in range(1, len(trained))]
    # The rarest pieces make room for the boundaries, whose score decides nothing.
    apart = [(c, min(score for _, score in learned)) for c in text.boundaries]
    longer = [i for i, (piece, _) in enumerate(learned) if len(piece) > 1]
    if len(longer) < len(apart):
        raise AlphabetTooLarge(section.vocabulary_size + len(apart) - len(longer), section)
    dropped = set(longer[len(longer) - len(apart) :])
    pieces = [piece for i, piece in enumerate(learned) if i not in dropped]
    bytes_ = BYTE_PIECES if section.byte_fallback else ()
    reserved = [(piece, 0.0) for piece in (*section.special_tokens.texts, *bytes_)]
    return models.Unigram([*reserved, *pieces, *apart], 3, section.byte_fallback)


def sentencepiece_model(sentences: Iterable[str], section: Tokenizer) -> bytes:
    """Train sentencepiece's model: its unknown piece, and the pieces without the boundaries."""
    model = io.BytesIO()
    try:
        _sentencepiece().SentencePieceTrainer.Train(
            sentence_iterator=iter(
                f"{word}\t{count}" for word, count in _word_counts(sentences, section).items()
            ),
            input_format="tsv",
            model_writer=model,
            model_type="unigram",
            vocab_size=section.vocabulary_size - section.reserved + 1,
            character_coverage=section.character_coverage,
            num_threads=section.training_threads,
            normalization_rule_name="identity",
            add_dummy_prefix=not section.byte_fallback,
            max_sentence_length=1 << 20,
            train_extremely_large_corpus=section.max_training_bytes > 1 << 30,
            unk_id=0,
            unk_piece=_NO_TEXT_HAS,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _refusal(str(error), section) from None
    return model.getvalue()


def _sentencepiece() -> ModuleType:
    """Import the package, with OpenMP threads that sleep while they wait: if another process has
    one of the cores, spinning ones take ten times as long."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import sentencepiece

    return sentencepiece


def _word_counts(sentences: Iterable[str], section: Tokenizer) -> Counter[str]:
    """Count each word, in the order of the first occurrences; with byte fallback, words after the
    first include METASPACE. Runs of spaces are left out: the lone mark would become so probable
    that words are spelled as the mark and the rest."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        words = [word for word in sentence.split(" ") if word]
        if section.byte_fallback:
            words[1:] = [METASPACE + word for word in words[1:]]
        counts.update(words)
    return counts


def _refusal(message: str, section: Tokenizer) -> MlmError:
    others = section.reserved - 1
    if match := _TOO_HIGH.search(message):
        return CorpusTooSmall(int(match[2]) + others, section)
    if match := _TOO_LOW.search(message):
        return AlphabetTooLarge(int(match[2]) + others, section)
    if "sentences_.empty()" in message:
        return MlmError(NO_TEXT)
    return MlmError(f"The tokenizer could not be trained; sentencepiece says: {message}")
