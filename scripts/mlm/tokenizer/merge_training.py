"""Vocabularies made by merging the most frequent pair: BPE and WordPiece.

Byte-pair encoding: Sennrich et al., 2016, arXiv 1508.07909. WordPiece is the vocabulary of these
merges, read by longest match first (Devlin et al., 2019). The trainer of `tokenizers` numbers
WordPiece's `##` symbols in the order of a hash table, so all symbols are sorted and given to it.
"""

import json
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from mlm.config.tokenizer import Tokenizer
from mlm.foundations.errors import MlmError
from mlm.tokenizer.training_text import (
    BYTE_PIECES,
    NO_TEXT,
    AlphabetTooLarge,
    CorpusTooSmall,
    TrainingText,
)

#: The longest piece, in characters, as in sentencepiece.
_LONGEST_PIECE = 16
#: Words, numbers and the rest are never merged: "people," is two pieces. `▁` goes with any.
_CLASSES = "\u2581?[\\p{L}\\p{M}]+|\u2581?\\p{N}+|\u2581?[^\\p{L}\\p{M}\\p{N}\u2581]+|\u2581"
_CONTINUING = "##"
BERT_NORMALISATION = dict.fromkeys(("clean_text", "strip_accents", "lowercase"), False)
_SEPARATORS = "\x1c\x1d\x1e\x1f"
#: Ideographs, around which BERT's normalisation puts spaces, and words of its pre-tokenizer.
_ALONE = re.compile(
    "[\\u4e00-\\u9fff\\u3400-\\u4dbf\\U00020000-\\U0002a6df\\U0002a700-\\U0002ceaf\\uf900-\\ufaff"
    f"\\U0002f800-\\U0002fa1f{re.escape(string.punctuation)}]"
)


def train_bpe(text: TrainingText, section: Tokenizer) -> Any:
    """Train a `tokenizers.models.BPE` of `section.vocabulary_size` ids. Raises MlmError for too
    little text, or too many characters, for the vocabulary."""
    from tokenizers import Regex, models, pre_tokenizers

    alphabet = _alphabet(text, section)
    scheme = "never" if section.byte_fallback else "first"
    before = [
        pre_tokenizers.Metaspace(prepend_scheme=scheme, split=True),
        pre_tokenizers.Split(Regex(_CLASSES), "isolated"),
    ]
    symbols = [*(BYTE_PIECES if section.byte_fallback else ())]
    symbols += [*sorted({*alphabet, "\u2581"} - {" "}), *text.boundaries]
    trained = _merges(
        _spelled(text, alphabet), symbols, section, pre_tokenizer=pre_tokenizers.Sequence(before)
    )
    return models.BPE(
        trained["vocab"],
        [tuple(pair) for pair in trained["merges"]],
        unk_token=section.special_tokens.unk,
        fuse_unk=True,
        byte_fallback=section.byte_fallback,
    )


def train_wordpiece(text: TrainingText, section: Tokenizer) -> Any:
    """Train a `tokenizers.models.WordPiece` of `section.vocabulary_size` ids; see `train_bpe`."""
    from tokenizers import models, normalizers, pre_tokenizers

    alphabet = _alphabet(text, section)
    # Python counts four separators among white space, the pre-tokenizer does not.
    letters = sorted(
        {c for c in (*alphabet, *text.boundaries) if not c.isspace() or c in _SEPARATORS}
    )
    trained = _merges(
        _spelled(text, alphabet),
        [*letters, *(_CONTINUING + c for c in letters if not _stands_alone(c))],
        section,
        prefix={"continuing_subword_prefix": _CONTINUING},
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        normalizer=normalizers.BertNormalizer(**BERT_NORMALISATION),
    )
    return models.WordPiece(
        trained["vocab"], unk_token=section.special_tokens.unk, max_input_chars_per_word=200
    )


def _alphabet(sentences: Iterable[str], section: Tokenizer) -> set[str]:
    """Return the most frequent characters that together make up the coverage."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    wanted, covered, alphabet = section.character_coverage * counts.total(), 0, set()
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= wanted:
            break
        covered += count
        alphabet.add(character)
    if not alphabet:
        raise MlmError(NO_TEXT)
    return alphabet


def _spelled(sentences: Iterable[str], alphabet: set[str]) -> Iterator[str]:
    """Yield the sentences, divided at characters outside the alphabet."""
    for sentence in sentences:
        if alphabet.issuperset(sentence):
            yield sentence
        else:
            yield from "".join(c if c in alphabet else "\n" for c in sentence).split("\n")


def _stands_alone(character: str) -> bool:
    """Return whether BERT's pre-tokenizer makes `character` a word by itself."""
    return bool(_ALONE.match(character)) or unicodedata.category(character)[0] == "P"


def _merges(
    sentences: Iterable[str],
    symbols: list[str],
    section: Tokenizer,
    prefix: Mapping[str, str] = MappingProxyType({}),
    **steps: Any,
) -> dict:
    """Train, and return the model in the JSON of `tokenizers`; `steps` are normalizer and
    pre-tokenizer."""
    import tokenizers
    from tokenizers import models, trainers

    start = [*section.special_tokens.texts, *symbols]
    if len(start) > section.vocabulary_size:
        raise AlphabetTooLarge(len(start), section)
    tokenizer = tokenizers.Tokenizer(models.BPE(**prefix))
    for name, step in steps.items():
        setattr(tokenizer, name, step)
    trainer = trainers.BpeTrainer(
        vocab_size=section.vocabulary_size,
        special_tokens=start,
        max_token_length=_LONGEST_PIECE,
        show_progress=False,
        **prefix,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    if (ids := len(model["vocab"])) < section.vocabulary_size:
        raise CorpusTooSmall(ids, section)
    return model
