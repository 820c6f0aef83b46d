"""Training a tokenizer of any kind, the same bytes every time."""

import json
import math
import sys
from typing import Any

from mlm.config.tokenizer import MOST_BY_ITSELF, Tokenizer
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.tokenizer.artefacts import TrainedOn
from mlm.tokenizer.merge_training import BERT_NORMALISATION, train_bpe, train_wordpiece
from mlm.tokenizer.training_text import ESCAPES, AlphabetTooLarge, CorpusTooSmall, TrainingText
from mlm.tokenizer.unigram_training import train_unigram

_TRAINERS = {"unigram": train_unigram, "bpe": train_bpe, "wordpiece": train_wordpiece}


def train_tokenizer(corpus: SplitDocuments, section: Tokenizer) -> tuple[dict, TrainedOn]:
    """Train a tokenizer of `section.vocabulary_size` ids (None: as many as suit the text). Return a
    tokenizer.json's content and what it was trained on.

    The first ids are the special tokens in the order of `SPECIAL_NAMES`, then, with byte fallback,
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
    return _around(model, section), TrainedOn(text.documents, text.bytes, text.sampled)


def suitable_size(size: float) -> int:
    """Return how many ids suit `size` bytes of text, by Heaps' law."""
    return max(100, min(MOST_BY_ITSELF, round(2.5 * math.sqrt(size) / 100) * 100))


def _model(text: TrainingText, section: Tokenizer, size: int) -> Any:
    """Train a model, one of `tokenizers.models`, on a text of `size` bytes."""
    is_chosen = section.vocabulary_size is None
    ids = suitable_size(size) if is_chosen else section.vocabulary_size
    while True:
        share = "an even sample" if text.sampled else "all"
        print(
            f"Training a {section.kind} tokenizer of {ids:,} ids on {share} of the train split",
            file=sys.stderr,
        )
        try:
            return _TRAINERS[section.kind](
                text, section.model_copy(update={"vocabulary_size": ids})
            )
        except (AlphabetTooLarge, CorpusTooSmall) as error:
            if not is_chosen:
                raise
            if isinstance(error, AlphabetTooLarge):
                # Some more ids than characters, so that there are longer pieces too.
                ids = error.needed + max(100, error.needed // 4)
            else:
                # Now the number is exact.
                ids, is_chosen = error.ids, False


def _around(model: Any, section: Tokenizer) -> dict:
    """Return a tokenizer.json's content around `model`, whose first five ids are the special
    tokens.

    Words begin with `▁` (U+2581), the first word of a text as well, so that a word is the same
    piece everywhere. With byte fallback the ids of a text must decode to it exactly: there the
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
        # Words, punctuation and CJK characters apart, as in BERT (Devlin et al., 2019).
        before = [tokenizer.normalizer] if steps else []
        bert = normalizers.BertNormalizer(**BERT_NORMALISATION)
        tokenizer.normalizer = normalizers.Sequence([*before, bert])
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
    """Mark the words of `tokenizer` by `▁`, for the kinds that join pieces to a text again."""
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
