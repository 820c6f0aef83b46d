"""The text that a tokenizer is trained on: streamed, cleaned, cut, and sampled evenly."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mlm.corpus.split_documents import EvenShare, SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.foundations.progress_line import Progress
from mlm.tokenizer.tokenizer_settings import TokenizerSettings

#: Longest stretch of text that a trainer is given at once. Trainers are slow on very long
#: lines, and sentencepiece leaves out what is longer than its limit.
LONGEST_SENTENCE = 2000
#: How many times `max_training_bytes` is read of a larger text, to choose from.
_READ = 4
#: Characters that end a stretch of training text and have a piece of their own if they occur:
#: line ends, which no word runs across, and what sentencepiece uses as marks of its own and
#: gives no piece to (tab, U+001F, U+2585, NUL).
BOUNDARIES = "\n\r\t\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\0\u2585"
#: What ends a lossless tokenizer's escapes; see `mlm.tokenizer.assembly`.
ESCAPES = (("\u241b", "\u241b0"), ("\u2581", "\u241b1"))
_LINE_ENDS = {ord(c): "\n" for c in BOUNDARIES}


@dataclass
class TrainingText:
    """The training text of a corpus, as an iterable that can be read again.

    Replacements are made, special strings are broken up (none may become a piece), stretches
    longer than LONGEST_SENTENCE are cut, at a space where there is
    one. Of a corpus larger than `max_training_bytes` an even share is given: stretches from
    its beginning to its end, chosen by position alone, of at most four times as much that is read.

    After a reading, `documents`, `bytes` and `boundaries` (those of BOUNDARIES that occur)
    say what was read; `sampled` whether it was a share.
    """

    corpus: SplitDocuments
    settings: TokenizerSettings
    documents: int = 0
    bytes: int = 0
    boundaries: str = ""
    sampled: bool = field(init=False)
    _share: EvenShare = field(init=False)

    def __post_init__(self):
        self._share = self.corpus.evenly(_READ * self.settings.max_training_bytes)
        self.sampled = self.corpus.bytes > self.settings.max_training_bytes
        if not self.corpus.bytes:
            raise MlmError(
                f"{self.corpus.named} holds no text: there is nothing to train a tokenizer on. "
                "Check corpus.source and corpus.filters."
            )

    def __iter__(self) -> Iterator[str]:
        sentences = self._sentences()
        if self.sampled:
            sentences = evenly(sentences, self.settings.max_training_bytes / self._share.bytes)
        self.bytes = 0
        for sentence in sentences:
            size = len(sentence) if sentence.isascii() else len(sentence.encode())
            # What is read of a larger text can come to more than was expected.
            if self.sampled and self.bytes + size > self.settings.max_training_bytes:
                return
            self.bytes += size
            yield sentence

    def _sentences(self) -> Iterator[str]:
        self.documents, read, found = 0, 0, set()
        progress = Progress("reading the training text", self._share.bytes, "bytes")
        for texts in self.corpus.texts(share=self._share):
            for text in texts:
                read += len(text) if text.isascii() else len(text.encode())
                text = replaced(text, self.settings)
                if present := [c for c in BOUNDARIES if c in text]:
                    found.update(present)
                    text = text.translate(_LINE_ENDS)
                text = broken(text, self.settings)
                self.documents += 1
                for line in text.split("\n"):
                    yield from cut(line) if len(line) > LONGEST_SENTENCE else (line,)
            progress.to(read)
        self.boundaries = "".join(sorted(found))


def replaced(text: str, settings: TokenizerSettings) -> str:
    """`text` with the configured replacements made."""
    for old, new in settings.replacements:
        text = text.replace(old, new)
    return text


def broken(text: str, settings: TokenizerSettings) -> str:
    """`text` with a line end in each special string, after its first character.

    So no piece learned is one, while their characters are. The unknown literal, which is
    never encoded as text, is left out.
    """
    if settings.unknown_literal:
        text = text.replace(settings.unknown_literal, "\n")
    for literal in settings.special_tokens:
        text = text.replace(literal, f"{literal[0]}\n{literal[1:]}" if literal[1:] else "\n")
    if settings.byte_fallback:
        for old, new in ESCAPES:
            text = text.replace(old, new)
        text = text.replace("<0x", "<\n0x")
    return text


def cut(line: str, longest: int = LONGEST_SENTENCE) -> Iterator[str]:
    """`line` in stretches of at most `longest` characters, ended at a space where possible.

    The space at a cut is left out: the next stretch begins a word without it.
    """
    start = 0
    while len(line) - start > longest:
        space = line.rfind(" ", start + 1, start + longest + 1)
        end = space if space > start else start + longest
        yield line[start:end]
        start = end + (end == space)
    yield line[start:]


def evenly(sentences: Iterable[str], share: float) -> Iterator[str]:
    """Sentences spread evenly over the input, at most `share` of its bytes in total.

    A sentence is taken when the bytes taken so far have fallen behind their share, so the
    choice depends on the text alone.
    """
    seen = taken = 0
    for sentence in sentences:
        size = len(sentence) if sentence.isascii() else len(sentence.encode())
        seen += size
        if taken + size <= seen * share:
            taken += size
            yield sentence
