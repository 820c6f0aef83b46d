"""The text that a tokenizer is trained on: cleaned, cut, and evenly sampled."""

from collections.abc import Iterator

from mlm.config.tokenizer import Tokenizer
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import Progress

#: Longest stretch of text, in characters: trainers are slow on longer ones, or leave them out.
LONGEST_SENTENCE = 2000
#: How many times `max_training_bytes` is read of a larger text, to choose from.
_READ = 4
#: Characters that end a stretch and have a piece of their own if they occur: line ends, and what
#: sentencepiece gives no piece to (tab, U+001F, U+2585, NUL).
BOUNDARIES = "\n\r\t\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\0\u2585"
_LINE_ENDS = {ord(c): "\n" for c in BOUNDARIES}
#: How a tokenizer with byte fallback writes `▁`, and the sign of these escapes itself.
ESCAPES = (("\u241b", "\u241b0"), ("\u2581", "\u241b1"))


class TrainingText:
    """The training text of a corpus, as an iterable that can be read again; of a corpus larger than
    `max_training_bytes`, stretches from its beginning to its end, chosen by position.

    After a reading, `documents`, `bytes` and `boundaries` (those of BOUNDARIES that occur) describe
    what was read.
    """

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
    if section.byte_fallback:
        for old, new in ESCAPES:
            text = text.replace(old, new)
        text = text.replace("<0x", "<\n0x")
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
