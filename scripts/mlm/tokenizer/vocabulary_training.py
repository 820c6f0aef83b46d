"""Training a tokenizer of any kind, the same bytes every time.

Unigram: Kudo, 2018, arXiv 1804.10959, by sentencepiece, which gives the same scores for a number of
threads; the trainer of `tokenizers` gives others on every run. It gets every word once, with its
count. Byte-pair encoding: Sennrich et al., 2016, arXiv 1508.07909. WordPiece is the vocabulary of
such merges, read by longest match first (Devlin et al., 2019); the trainer of `tokenizers` numbers
its `##` symbols in the order of a hash table, so all symbols are sorted and given to it.
"""

import io
import json
import math
import os
import re
import string
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from mlm.config.tokenizer import MOST_BY_ITSELF, Tokenizer
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import Progress
from mlm.tokenizer.artefacts import TrainedOn
from mlm.tokenizer.pieces import METASPACE

#: sentencepiece leaves its unknown piece, "<unk>" by default, out of the text that it learns from.
_IN_NO_TEXT = "\ufdd0"
#: Longest stretch of text, in characters: trainers are slow on longer ones, or leave them out.
LONGEST_SENTENCE = 2000
#: How many times `max_training_bytes` is read of a larger text, to choose from.
_READ = 4
#: Characters that end a stretch and have a piece of their own if they occur: line ends, and what
#: sentencepiece gives no piece to (tab, U+001F, U+2585, NUL).
BOUNDARIES = "\n\r\t\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\0\u2585"
_LINE_ENDS = {ord(c): "\n" for c in BOUNDARIES}
_TOO_HIGH = re.compile(r"Vocabulary size too high \((\d+)\).*value <= (\d+)")
_TOO_LOW = re.compile(r"smaller than required_chars\. (\d+) vs (\d+)")
#: The longest piece of BPE and WordPiece, in characters, as in sentencepiece.
_LONGEST_PIECE = 16
#: Words, numbers and the rest are never merged: "people," is two pieces. `▁` goes with any.
_CLASSES = "\u2581?[\\p{L}\\p{M}]+|\u2581?\\p{N}+|\u2581?[^\\p{L}\\p{M}\\p{N}\u2581]+|\u2581"
_CONTINUING = "##"
_BERT_NORMALISATION = dict.fromkeys(("clean_text", "strip_accents", "lowercase"), False)
#: Separators that Python counts among white space, and BERT's pre-tokenizer does not.
_SEPARATORS = "\x1c\x1d\x1e\x1f"
#: Ideographs, around which BERT's normalisation puts spaces, and words of its pre-tokenizer.
_ALONE = re.compile(
    "[\\u4e00-\\u9fff\\u3400-\\u4dbf\\U00020000-\\U0002a6df\\U0002a700-\\U0002ceaf\\uf900-\\ufaff"
    f"\\U0002f800-\\U0002fa1f{re.escape(string.punctuation)}]"
)
_NO_TEXT = (
    "There is no text to train a tokenizer on, but white space and special tokens. Add text, or "
    "raise tokenizer.max_training_bytes"
)


class TrainingText:
    """The training text of a corpus, as an iterable that can be read again; of a corpus larger than
    `max_training_bytes`, an even sample. After a reading, `documents`, `bytes` and `boundaries`
    (those of BOUNDARIES that occur) describe what was read."""

    def __init__(self, corpus: SplitDocuments, section: Tokenizer):
        if not corpus.bytes:
            raise MlmError(f"{corpus.named} holds no text to train a tokenizer on.")
        self._corpus, self._section = corpus, section
        self._share = corpus.evenly(_READ * section.max_training_bytes)
        self.sampled = corpus.bytes > section.max_training_bytes
        self.documents, self.bytes, self.boundaries = 0, 0, ""

    def __iter__(self) -> Iterator[str]:
        self.documents = self.bytes = read = passed = 0
        most, boundaries = self._section.max_training_bytes, set()
        progress = Progress("reading the training text", round(self._share.bytes), "bytes")
        for texts in self._corpus.texts(share=self._share):
            for text in texts:
                read += _size(text)
                self.documents += 1
                for old, new in self._section.replacements or ():
                    text = text.replace(old, new)
                if present := [c for c in BOUNDARIES if c in text]:
                    boundaries.update(present)
                    text = text.translate(_LINE_ENDS)
                for line in _broken(text, self._section).split("\n"):
                    for sentence in cut(line):
                        size = _size(sentence)
                        passed += size
                        # A sample grows in proportion to what has passed.
                        due = min(most, most * passed / self._share.bytes)
                        if not self.sampled or self.bytes + size <= due:
                            self.bytes += size
                            yield sentence
            progress.to(read)
        self.boundaries = "".join(sorted(boundaries))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _broken(text: str, section: Tokenizer) -> str:
    """Return `text` with a line end in each special string, after its first character, so that no
    piece learned is one. The unknown literal is left out."""
    if section.unknown_literal:
        text = text.replace(section.unknown_literal, "\n")
    for literal in section.special_tokens.texts:
        text = text.replace(literal, f"{literal[0]}\n{literal[1:]}")
    return text


def cut(line: str, longest: int = LONGEST_SENTENCE) -> Iterator[str]:
    """Yield `line` in stretches of at most `longest` characters, ended at a space if possible."""
    start = 0
    while len(line) - start > longest:
        space = line.rfind(" ", start + 1, start + longest + 1)
        end = space if space > start else start + longest
        yield line[start:end]
        start = end + (end == space)
    yield line[start:]


class AlphabetTooLarge(MlmError):
    """The characters alone need more ids than there are; `ids` leave room for longer pieces."""

    def __init__(self, needed: int, size: int):
        self.ids = needed + max(100, needed // 4)
        super().__init__(
            f"tokenizer.vocabulary_size: {size}, but the characters of the train split alone need "
            f"{needed} ids. Set more than that, or lower tokenizer.character_coverage"
        )


class CorpusTooSmall(MlmError):
    """The text gives fewer ids than `tokenizer.vocabulary_size`: `ids`."""

    def __init__(self, ids: int, size: int):
        self.ids = ids
        super().__init__(
            f"The train split is too small for tokenizer.vocabulary_size: {size}. Its text gives "
            f"{ids} ids; set {ids} or less, add text, or raise tokenizer.max_training_bytes."
        )


def train_tokenizer(corpus: SplitDocuments, section: Tokenizer) -> tuple[dict, TrainedOn]:
    """Train a tokenizer of `section.vocabulary_size` ids (None: as many as suit the text). Return a
    tokenizer.json's content, with special tokens first, and what it was trained on.
    Raises MlmError if there is too little text for the vocabulary."""
    text = TrainingText(corpus, section)
    model = _model(text, section, corpus.bytes)
    return _around(model, section), TrainedOn(text.documents, text.bytes, text.sampled)


def suitable_size(size: float) -> int:
    """Return how many ids suit `size` bytes of text, by Heaps' law."""
    return max(100, min(MOST_BY_ITSELF, round(2.5 * math.sqrt(size) / 100) * 100))


def _model(text: TrainingText, section: Tokenizer, size: int) -> Any:
    """Train a model, one of `tokenizers.models`, on a text of `size` bytes."""
    is_chosen, ids = not section.vocabulary_size, section.vocabulary_size or suitable_size(size)
    while True:
        print(f"Training a {section.kind} tokenizer of {ids:,} ids", file=sys.stderr)
        try:
            return _TRAINERS[section.kind](text, section, ids)
        except (AlphabetTooLarge, CorpusTooSmall) as error:
            if not is_chosen:
                raise
            # What a text gives is exact.
            ids, is_chosen = error.ids, isinstance(error, AlphabetTooLarge)


def _train_unigram(text: TrainingText, section: Tokenizer, size: int) -> Any:
    """Train special tokens, pieces by descending probability, and occurring boundaries."""
    from tokenizers import models

    model = sentencepiece_model(text, section, size)
    trained = _sentencepiece().SentencePieceProcessor(model_proto=model)
    learned = [(trained.id_to_piece(i), trained.get_score(i)) for i in range(1, len(trained))]
    # The rarest pieces make room for the boundaries, whose score decides nothing.
    boundaries = [(c, min(score for _, score in learned)) for c in text.boundaries]
    longer = [i for i, (piece, _) in enumerate(learned) if len(piece) > 1]
    if (lacking := len(boundaries) - len(longer)) > 0:
        raise AlphabetTooLarge(size + lacking, size)
    dropped = set(longer[len(longer) - len(boundaries) :])
    pieces = [piece for i, piece in enumerate(learned) if i not in dropped]
    special = [(piece, 0.0) for piece in section.special_tokens.texts]
    return models.Unigram([*special, *pieces, *boundaries], 3, False)


def sentencepiece_model(sentences: Iterable[str], section: Tokenizer, size: int) -> bytes:
    """Train sentencepiece's model: its unknown piece, and the pieces without the boundaries."""
    model, counts = io.BytesIO(), Counter[str]()
    # Runs of spaces are left out: the lone mark would become so probable that words are spelled as
    # the mark and the rest.
    for sentence in sentences:
        counts.update(filter(None, sentence.split(" ")))
    others = len(section.special_tokens.texts) - 1
    try:
        _sentencepiece().SentencePieceTrainer.Train(
            sentence_iterator=(f"{word}\t{count}" for word, count in counts.items()),
            input_format="tsv",
            model_writer=model,
            model_type="unigram",
            vocab_size=size - others,
            character_coverage=section.character_coverage,
            num_threads=section.training_threads,
            normalization_rule_name="identity",
            max_sentence_length=1 << 20,
            train_extremely_large_corpus=section.max_training_bytes > 1 << 30,
            unk_id=0,
            unk_piece=_IN_NO_TEXT,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        message = str(error)
        if match := _TOO_HIGH.search(message):
            raise CorpusTooSmall(int(match[2]) + others, size) from None
        if match := _TOO_LOW.search(message):
            raise AlphabetTooLarge(int(match[2]) + others, size) from None
        if "sentences_.empty()" in message:
            raise MlmError(_NO_TEXT) from None
        raise
    return model.getvalue()


def _sentencepiece() -> ModuleType:
    """Import the package, with OpenMP threads that sleep while they wait: if another process has
    one of the cores, spinning ones take ten times as long."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import sentencepiece

    return sentencepiece


def _train_bpe(text: TrainingText, section: Tokenizer, size: int) -> Any:
    from tokenizers import Regex, models, pre_tokenizers

    alphabet = _alphabet(text, section)
    before = [_metaspace(), pre_tokenizers.Split(Regex(_CLASSES), "isolated")]
    symbols = [*sorted({*alphabet, METASPACE} - {" "}), *text.boundaries]
    trained = _merges(
        _spelled(text, alphabet),
        symbols,
        section,
        size,
        pre_tokenizer=pre_tokenizers.Sequence(before),
    )
    return models.BPE(
        trained["vocab"],
        [tuple(pair) for pair in trained["merges"]],
        unk_token=section.special_tokens.unk,
        fuse_unk=True,
    )


def _train_wordpiece(text: TrainingText, section: Tokenizer, size: int) -> Any:
    from tokenizers import models, normalizers, pre_tokenizers

    alphabet = _alphabet(text, section)
    seen = (*alphabet, *text.boundaries)
    letters = sorted({c for c in seen if not c.isspace() or c in _SEPARATORS})
    inside = [c for c in letters if not (_ALONE.match(c) or unicodedata.category(c)[0] == "P")]
    trained = _merges(
        _spelled(text, alphabet),
        [*letters, *(_CONTINUING + c for c in inside)],
        section,
        size,
        prefix={"continuing_subword_prefix": _CONTINUING},
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        normalizer=normalizers.BertNormalizer(**_BERT_NORMALISATION),
    )
    return models.WordPiece(
        trained["vocab"], unk_token=section.special_tokens.unk, max_input_chars_per_word=200
    )


_TRAINERS = {"unigram": _train_unigram, "bpe": _train_bpe, "wordpiece": _train_wordpiece}


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
        raise MlmError(_NO_TEXT)
    return alphabet


def _spelled(sentences: Iterable[str], alphabet: set[str]) -> Iterator[str]:
    """Yield the sentences, divided at characters outside the alphabet."""
    for sentence in sentences:
        if alphabet.issuperset(sentence):
            yield sentence
        else:
            yield from "".join(c if c in alphabet else "\n" for c in sentence).split("\n")


def _merges(
    sentences: Iterable[str],
    symbols: list[str],
    section: Tokenizer,
    size: int,
    prefix: Mapping[str, Any] = MappingProxyType({}),
    **steps: Any,
) -> dict:
    """Train, and return the model in the JSON of `tokenizers`."""
    import tokenizers
    from tokenizers import models, trainers

    start = [*section.special_tokens.texts, *symbols]
    if len(start) > size:
        raise AlphabetTooLarge(len(start), size)
    tokenizer = tokenizers.Tokenizer(models.BPE(**prefix))
    for name, step in steps.items():
        setattr(tokenizer, name, step)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=start,
        max_token_length=_LONGEST_PIECE,
        show_progress=False,
        **prefix,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    if (ids := len(model["vocab"])) < size:
        raise CorpusTooSmall(ids, size)
    return model


def _metaspace() -> Any:
    """Return the pre-tokenizer that marks words by `▁`."""
    from tokenizers import pre_tokenizers

    return pre_tokenizers.Metaspace(prepend_scheme="first", split=True)


def _around(model: Any, section: Tokenizer) -> dict:
    """Return a tokenizer.json's content around `model`. Words begin with `▁`, the first one of a
    text as well, so that a word is the same piece everywhere."""
    import tokenizers
    from tokenizers import decoders, normalizers, pre_tokenizers, processors

    tokenizer = tokenizers.Tokenizer(model)
    flags = {"rstrip": False, "normalized": False, "special": True}
    for text in section.special_tokens.texts:
        lstrip = text == section.special_tokens.mask
        tokenizer.add_special_tokens([tokenizers.AddedToken(text, lstrip=lstrip, **flags)])
    if replacements := section.replacements:
        steps = [normalizers.Replace(old, new) for old, new in replacements]
        tokenizer.normalizer = normalizers.Sequence(steps)
    if section.kind == "wordpiece":
        # Words, punctuation and CJK characters apart, as in BERT (Devlin et al., 2019).
        before = [tokenizer.normalizer] if replacements else []
        bert = normalizers.BertNormalizer(**_BERT_NORMALISATION)
        tokenizer.normalizer = normalizers.Sequence([*before, bert])
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(prefix=_CONTINUING, cleanup=False)
    else:
        tokenizer.pre_tokenizer = _metaspace()
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=True)
    cls, sep = section.special_tokens.cls, section.special_tokens.sep
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
        special_tokens=[(text, tokenizer.token_to_id(text)) for text in (cls, sep)],
    )
    return json.loads(tokenizer.to_str())
