"""A trained vocabulary becomes a whole tokenizer: what happens before it and after it.

Words begin with `▁` (U+2581), in the first word of a text as well, so that a word is the same
piece wherever it stands; what follows a special token goes on where that ended. (A text that
begins with a replaced string has no mark: tokenizers no longer takes it for the beginning.)

With byte fallback a text must come back from its ids exactly, and
that mark would make "a" and " a" the same: there the first word has no mark, a `▁` in the
text is written as an escape, and so is what would look like a byte piece.
"""

import json
from typing import Any

from mlm.tokenizer.encoding import SPECIAL_NAMES
from mlm.tokenizer.tokenizer_settings import TokenizerSettings
from mlm.tokenizer.training_text import ESCAPES


def assemble(model: Any, settings: TokenizerSettings) -> dict:
    """A tokenizer.json's content around `model`, one of `tokenizers.models`.

    The model's first five ids are the special tokens.
    """
    import tokenizers
    from tokenizers import normalizers, processors

    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.add_special_tokens(
        [
            tokenizers.AddedToken(
                text, lstrip=name == "mask", rstrip=False, normalized=False, special=True
            )
            for name, text in zip(SPECIAL_NAMES, settings.special_tokens, strict=True)
        ]
    )
    steps = [*settings.replacements, *(ESCAPES if settings.byte_fallback else ())]
    if steps:
        replaced = [normalizers.Replace(old, new) for old, new in steps]
        tokenizer.normalizer = normalizers.Sequence(replaced)
    if settings.kind == "wordpiece":
        _words(tokenizer)
    else:
        _marked_words(tokenizer, settings)
    special = dict(zip(SPECIAL_NAMES, settings.special_tokens, strict=True))
    cls, sep = special["cls"], special["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
        special_tokens=[(text, tokenizer.token_to_id(text)) for text in (cls, sep)],
    )
    return json.loads(tokenizer.to_str())


def _marked_words(tokenizer: Any, settings: TokenizerSettings) -> None:
    """Words with `▁` before them, for the kinds that put a text together again from pieces."""
    from tokenizers import decoders, pre_tokenizers

    scheme = "never" if settings.byte_fallback else "first"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme, split=True)
    if settings.byte_fallback:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [tokenizer.pre_tokenizer, pre_tokenizers.Split("<0x", "isolated")]
        )
        unescape = [decoders.Replace(new, old) for old, new in reversed(ESCAPES)]
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.Replace("\u2581", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                *unescape,
            ]
        )


def _words(tokenizer: Any) -> None:
    """Words and punctuation apart, as in BERT (Devlin et al., 2019); CJK characters too."""
    from tokenizers import decoders, normalizers, pre_tokenizers

    apart = normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
    )
    before = [tokenizer.normalizer] if tokenizer.normalizer is not None else []
    tokenizer.normalizer = normalizers.Sequence([*before, apart])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
