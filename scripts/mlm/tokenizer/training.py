"""Training a tokenizer of any kind, the same bytes every time."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.tokenizer.artefacts import TrainedOn
from mlm.tokenizer.assembly import assemble
from mlm.tokenizer.merge_training import train_bpe, train_wordpiece
from mlm.tokenizer.tokenizer_settings import (
    BYTE_PIECES,
    AlphabetTooLarge,
    CorpusTooSmall,
    TokenizerSettings,
)
from mlm.tokenizer.training_text import TrainingText
from mlm.tokenizer.unigram_training import train_unigram


@dataclass(frozen=True)
class Trained:
    """A tokenizer.json's content and what it was trained on."""

    tokenizer: dict
    text: TrainedOn


def train_tokenizer(corpus: SplitDocuments, settings: TokenizerSettings) -> Trained:
    """A tokenizer of `settings.vocabulary_size` ids, trained on the texts of a split.

    Where they are set `by_itself`, of so many that the text suits.

    Its first ids are the special tokens in the order of `SPECIAL_NAMES`, then, with byte
    fallback, the 256 bytes, then what was learned. The result is a function of the texts
    and the settings. Raises MlmError where the text does not suffice for the vocabulary.
    """
    text, start = TrainingText(corpus, settings), time.monotonic()
    with _signs_of_life():
        try:
            model, settings = _model(text, settings)
        except MlmError as error:
            if not text.sampled:
                raise
            raise MlmError(
                f"{error} Only an even sample of {text.bytes:,} bytes of the train split was read, "
                f"as of tokenizer.max_training_bytes: {settings.max_training_bytes}; raise it."
            ) from None
    seconds = time.monotonic() - start
    print(f"Trained on {text.bytes:,} bytes in {seconds:.1f} s.", file=sys.stderr)
    return Trained(assemble(model, settings), TrainedOn(text.documents, text.bytes, text.sampled))


def _model(text: TrainingText, settings: TokenizerSettings) -> tuple[Any, TokenizerSettings]:
    """A trained model, and `settings` with the size that it has."""
    train = {"unigram": _unigram, "bpe": train_bpe, "wordpiece": train_wordpiece}
    print(
        f"Training a {settings.kind} tokenizer of {settings.vocabulary_size:,} ids"
        f"{' on an even sample of the train split' if text.sampled else ''}"
        f"{' (tokenizer.vocabulary_size: auto)' if settings.by_itself else ''} ...",
        file=sys.stderr,
    )
    try:
        return train[settings.kind](text, settings), settings
    except AlphabetTooLarge as error:
        if not settings.by_itself:
            raise
        another = error.fitting(settings)
    except CorpusTooSmall as error:
        if not settings.by_itself:
            raise
        # It is known exactly now.
        another = replace(settings, vocabulary_size=error.ids, by_itself=False)
    print(
        f"The text of the train split does not suit {settings.vocabulary_size:,} ids.",
        file=sys.stderr,
    )
    return _model(text, another)


@contextmanager
def _signs_of_life(every: float = 30.0) -> Iterator[None]:
    """A line on stderr every `every` seconds: the trainers themselves say nothing till the end."""
    done, start = threading.Event(), time.monotonic()

    def speak() -> None:
        while not done.wait(every):
            print(f"... still training, {time.monotonic() - start:.0f} s", file=sys.stderr)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        done.set()
        speaker.join()


def _unigram(text: TrainingText, settings: TokenizerSettings):
    """A Unigram model: special tokens, bytes, learned pieces, characters set apart."""
    from tokenizers import models

    learned = train_unigram(text, settings)
    # Their number is known only after the reading; the rarest pieces make room for them.
    # Their score decides nothing: no other piece holds these characters.
    apart = [(c, min(score for _, score in learned)) for c in text.boundaries]
    longer = [i for i, (piece, _) in enumerate(learned) if len(piece) > 1]
    if len(longer) < len(apart):
        raise AlphabetTooLarge(settings.vocabulary_size + len(apart) - len(longer), settings)
    dropped = set(longer[len(longer) - len(apart) :])
    kept = [piece for i, piece in enumerate(learned) if i not in dropped]
    bytes_ = BYTE_PIECES if settings.byte_fallback else ()
    reserved = [(piece, 0.0) for piece in (*settings.special_tokens, *bytes_)]
    return models.Unigram([*reserved, *kept, *apart], 3, settings.byte_fallback)
