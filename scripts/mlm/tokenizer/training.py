"""Training a tokenizer of any kind, the same bytes every time."""

import json
import math
import sys
from typing import Any, NamedTuple

from mlm.config.tokenizer import MOST_BY_ITSELF, Tokenizer
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.tokenizer.artefacts import TrainedOn
from mlm.tokenizer.merge_training import BERT_NORMALISATION, train_bpe, train_wordpiece
from mlm.tokenizer.training_text import ESCAPES, AlphabetTooLarge, CorpusTooSmall, TrainingText
from mlm.tokenizer.unigram_training import train_unigram

_TRAINERS = {"unigram": train_unigram, "bpe": train_bpe, "wordpiece": train_wordpiece}


class Trained(NamedTuple):
    """A tokenizer.json's content and what it was trained on."""

    tokenizer: dict
    text: TrainedOn


def train_tokenizer(corpus: SplitDocuments, section: Tokenizer) -> Trained:
    """A tokenizer of `section.vocabulary_size` ids (None: as many as suit the text).

    Its first ids are the special tokens in the order of `SPECIAL_NAMES`, then, with byte fallback,
    the 256 bytes. Raises MlmError if the text does not suffice for the vocabulary.
    """
    text = TrainingText(corpus, section)
    try:
        model = _model(text, section, corpus.bytes)
    except MlmError as error:
        if not text.sampled:
            raise
        raise MlmError(
            f"{error} Only {text.bytes:,} bytes of the train split were read, as of "
            f"tokenizer.max_training_bytes: {section.max_training_bytes}; raise it."
        ) from None
    return Trained(_around(model, section), TrainedOn(text.documents, text.bytes, text.sampled))


def suitable_size(size: float | None) -> int:
    """How many ids suit `size` bytes of text (None: a large text), by Heaps' law."""
    if size is None:
        return MOST_BY_ITSELF
    return max(100, min(MOST_BY_ITSELF, round(2.5 * math.sqrt(size) / 100) * 100))


def _model(text: TrainingText, section: Tokenizer, size: int) -> Any:
    """A trained model, one of `tokenizers.models`, on a text of `size` bytes."""
    by_itself = section.vocabulary_size is None
    ids = suitable_size(size) if by_itself else section.vocabulary_size
    while True:
        of_what = "an even sample" if text.sampled else "all"
        print(
            f"Training a {section.kind} tokenizer of {ids:,} ids on {of_what} of the train split",
            file=sys.stderr,
        )
        own = section.model_copy(update={"vocabulary_size": ids})
        try:
            return _TRAINERS[section.kind](text, own)
        except (AlphabetTooLarge, CorpusTooSmall) as error:
            if not by_itself:
                raise
            if isinstance(error, AlphabetTooLarge):
                # Some more ids than characters, so that there are longer pieces too.
                ids = error.needed + max(100, error.needed // 4)
            else:
                # It is known exactly now.
                ids, by_itself = error.ids, False


def _around(model: Any, section: Tokenizer) -> dict:
    """A tokenizer.json's content around `model`, whose first five ids are the special tokens.

    Words begin with `▁` (U+2581), in the first word of a text as well, so that a word is the same
    piece wherever it is. With byte fallback a text must come back from its ids exactly: there the
    first word has no mark, and a `▁` in the text is escaped, as is what looks like a byte piece.
    """
    import tokenizers
    from tokenizers import decoders, normalizers, pre_tokenizers, processors

    tokenizer = tokenizers.Tokenizer(model)
    flags = {"rstrip": False, "normalized": False, "special": True}
    for text in section.special_tokens.texts:
        lstrip = text == section.special_tokens.mask
        tokenizer.add_special_tokens([tokenizers.AddedToken(text, lstrip=lstrip, **flags)])
    steps = [*section.replacements, *(ESCAPES if section.byte_fallback else ())]
    if steps:
        replaced = [normalizers.Replace(old, new) for old, new in steps]
        tokenizer.normalizer = normalizers.Sequence(replaced)
    if section.kind == "wordpiece":
        # Words and punctuation apart, as in BERT (Devlin et al., 2019); CJK characters too.
        before = [tokenizer.normalizer] if steps else []
        apart = normalizers.BertNormalizer(**BERT_NORMALISATION)
        tokenizer.normalizer = normalizers.Sequence([*before, apart])
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    else:
        _mark_words(tokenizer, section.byte_fallback)
    cls, sep = section.special_tokens.cls, section.special_tokens.sep
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
        special_tokens=[(text, tokenizer.token_to_id(text)) for text in (cls, sep)],
    )
    return json.loads(tokenizer.to_str())


def _mark_words(tokenizer: Any, byte_fallback: bool) -> None:
    """Words with `▁` before them, for the kinds that put a text together again from pieces."""
    from tokenizers import decoders, pre_tokenizers

    scheme = "never" if byte_fallback else "first"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme, split=True)
    if byte_fallback:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [tokenizer.pre_tokenizer, pre_tokenizers.Split("<0x", "isolated")]
        )
        unescape = [decoders.Replace(new, old) for old, new in reversed(ESCAPES)]
        spaced = decoders.Replace("\u2581", " ")
        tokenizer.decoder = decoders.Sequence(
            [spaced, decoders.ByteFallback(), decoders.Fuse(), *unescape]
        )
