"""Vocabularies made by merging the most frequent pair: BPE and WordPiece.

Byte-pair encoding is Sennrich et al. (2016, arXiv 1508.07909). The trainer of `tokenizers`
breaks ties by the ids of the pair, and so is deterministic once every symbol it starts from
has its id: that holds for plain characters, which it sorts, and not for the `##` ones of
WordPiece, which it numbers in the order of a hash table. Here all symbols are counted, sorted
and handed to it beforehand.

WordPiece is the vocabulary of these merges, read by longest match first (Devlin et al., 2019),
which is also what the WordPiece trainer of `tokenizers` makes.
"""

import json
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from mlm.foundations.errors import MlmError
from mlm.tokenizer.tokenizer_settings import (
    BYTE_PIECES,
    NO_TEXT,
    AlphabetTooLarge,
    CorpusTooSmall,
    TokenizerSettings,
)

#: The longest piece, in characters, as in sentencepiece.
_LONGEST_PIECE = 16
#: Words, numbers and the rest are never merged with each other, so that "people," is two
#: pieces. The mark of a word's beginning goes with any of them.
_CLASSES = "\u2581?[\\p{L}\\p{M}]+|\u2581?\\p{N}+|\u2581?[^\\p{L}\\p{M}\\p{N}\u2581]+|\u2581"
_CONTINUING = "##"
_SEPARATORS = "\x1c\x1d\x1e\x1f"
#: Blocks of ideographs that BERT's normalisation puts spaces around.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def train_bpe(sentences: Iterable[str], settings: TokenizerSettings) -> Any:
    """A `tokenizers.models.BPE` of `settings.vocabulary_size` ids.

    `sentences` is read twice, and has the boundaries that it met in `.boundaries`. Raises
    MlmError for too little text, or too many characters, for the vocabulary.
    """
    from tokenizers import Regex, models, pre_tokenizers

    alphabet = _alphabet(sentences, settings)
    scheme = "never" if settings.byte_fallback else "first"
    before = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme=scheme, split=True),
            pre_tokenizers.Split(Regex(_CLASSES), "isolated"),
        ]
    )
    bytes_ = BYTE_PIECES if settings.byte_fallback else ()
    symbols = [*sorted({*alphabet, "\u2581"} - {" "}), *sentences.boundaries]
    trained = _merges(
        _spelled(sentences, alphabet), [*bytes_, *symbols], before, settings, prefix=None
    )
    return models.BPE(
        trained["vocab"],
        [tuple(pair) for pair in trained["merges"]],
        unk_token=settings.special_tokens[3],
        fuse_unk=True,
        byte_fallback=settings.byte_fallback,
    )


def train_wordpiece(sentences: Iterable[str], settings: TokenizerSettings) -> Any:
    """A `tokenizers.models.WordPiece` of `settings.vocabulary_size` ids; see `train_bpe`."""
    from tokenizers import models, normalizers, pre_tokenizers

    alphabet = _alphabet(sentences, settings)
    # Python counts four separators among white space, the pre-tokenizer does not.
    spoken = {c for c in (*alphabet, *sentences.boundaries) if not c.isspace() or c in _SEPARATORS}
    letters = sorted(spoken)
    symbols = [*letters, *(_CONTINUING + c for c in letters if not _stands_alone(c))]
    normalizer = normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
    )
    trained = _merges(
        _spelled(sentences, alphabet),
        symbols,
        pre_tokenizers.BertPreTokenizer(),
        settings,
        prefix=_CONTINUING,
        normalizer=normalizer,
    )
    return models.WordPiece(
        trained["vocab"], unk_token=settings.special_tokens[3], max_input_chars_per_word=200
    )


def _alphabet(sentences: Iterable[str], settings: TokenizerSettings) -> set[str]:
    """The most frequent characters that together make up the coverage asked for."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    wanted, seen, kept = settings.character_coverage * counts.total(), 0, set()
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if seen >= wanted:
            break
        seen += count
        kept.add(character)
    if not kept:
        raise MlmError(NO_TEXT)
    return kept


def _spelled(sentences: Iterable[str], alphabet: set[str]) -> Iterator[str]:
    """The sentences, parted where a character is outside the alphabet."""
    for sentence in sentences:
        if alphabet.issuperset(sentence):
            yield sentence
        else:
            yield from "".join(c if c in alphabet else "\n" for c in sentence).split("\n")


def _stands_alone(character: str) -> bool:
    """Whether BERT's pre-tokenizer makes `character` a word, so that it continues none."""
    if character in string.punctuation or unicodedata.category(character)[0] == "P":
        return True
    return any(low <= ord(character) <= high for low, high in _IDEOGRAPHS)


def _merges(
    sentences: Iterable[str],
    symbols: list[str],
    before: Any,
    settings: TokenizerSettings,
    prefix: str | None,
    normalizer: Any = None,
) -> dict:
    """The trained model as `tokenizers` writes it: `vocab` by piece, and `merges`."""
    import tokenizers
    from tokenizers import models, trainers

    wanted = settings.vocabulary_size
    start = [*settings.special_tokens, *symbols]
    if len(start) > wanted:
        raise AlphabetTooLarge(len(start), settings)
    continuing = {"continuing_subword_prefix": prefix} if prefix else {}
    tokenizer = tokenizers.Tokenizer(models.BPE(**continuing))
    tokenizer.pre_tokenizer = before
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=wanted,
        special_tokens=start,
        max_token_length=_LONGEST_PIECE,
        show_progress=False,
        **continuing,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    found = len(model["vocab"])
    if found < wanted:
        raise CorpusTooSmall(found, settings)
    return model
