"""Sentences whose words have tags: their files, and what counting predicts.

An example holds its words, separated by tabs, as the text, and their tags, separated by spaces, as
the target.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from mlm.config.finetune import FinetuneData
from mlm.corpus.source_files import not_fetched
from mlm.finetuning.artefacts import Example, Prediction
from mlm.foundations.errors import MlmError, listed

#: Words of a sentence at most: more are sentences without a blank line between them.
_MOST_WORDS = 5000
#: Characters of the longest suffix that the baseline knows.
_SUFFIX = 4
#: Problems of a file that a message lists at most.
_SHOWN = 10
_IOB = re.compile(r"O|[BI]-.+")
_DOCUMENT = "-DOCSTART-"


def read_tagged(file: str, data: FinetuneData) -> list[Example]:
    """Return the sentences of `file`, CoNLL or JSONL. Raises MlmError with the unusable lines."""
    lines, problems = read_utf8(file, "save the file as UTF-8").splitlines(), []
    read = _conll if data.source == "conll" else _jsonl
    examples = list(read(lines, data, problems))
    if not problems:
        problems = [*_swapped(examples)]
    if not problems and any(t[:2] in ("B-", "I-") for e in examples for t in e.target.split(" ")):
        problems = [problem for example in examples for problem in _not_iob2(example)]
    refuse(problems, file, "Correct the lines or drop the sentences")
    if not examples:
        raise MlmError(f"{file}: no sentence is in it")
    return examples


def read_utf8(file: str, remedy: str) -> str:
    """Return the text of `finetune.data.file`. Raises MlmError if it is not there, or not UTF-8."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MlmError(f"finetune.data.file: {file} does not exist") from None
    except UnicodeDecodeError as error:
        raise MlmError(f"{file}: byte {error.start} is not UTF-8; {remedy}") from None
    if problem := not_fetched(file):
        raise MlmError(f"finetune.data.file: {problem}")
    return text


def refuse(problems: Sequence[str], file: str, remedy: str) -> None:
    """Raise MlmError with the first `problems` of a file, if there are any."""
    if problems:
        more = f"\nand {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        shown = f"{listed(problems[:_SHOWN])}{more}"
        raise MlmError(f"{len(problems)} problems in {file}. {remedy}:\n{shown}")


def _conll(lines: Sequence[str], data: FinetuneData, problems: list[str]) -> Iterator[Example]:
    """The sentences of lines with a word and, last, its tag; blank lines end a sentence, and
    -DOCSTART- begins a document, which is a group."""
    filled = [line for line in lines if line.strip() and not line.startswith(_DOCUMENT)]
    separator = "\t" if filled and "\t" in filled[0] else None
    width = len(filled[0].split(separator)) if filled else 0
    words, tags, first, document = [], [], 1, 0
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip() and not line.startswith(_DOCUMENT):
            cells = [cell.strip() for cell in line.rstrip("\r\n").split(separator)]
            if len(cells) != width or width < 2 or not (cells[0] and cells[-1]):
                by = "tabs" if separator else "spaces"
                problems.append(
                    f"line {number}: {line[:40]!r} is not a word and its tag in {max(width, 2)} "
                    f"columns separated by {by}, as the first line is"
                )
                continue
            first = first if words else number
            words.append(cells[0])
            tags.append(cells[-1])
            continue
        if words:
            group = f"document {document}" if document else ""
            yield from _sentence(first, words, tags, group, problems)
            words, tags = [], []
        document += line.startswith(_DOCUMENT)


def _jsonl(lines: Sequence[str], data: FinetuneData, problems: list[str]) -> Iterator[Example]:
    """The sentences of objects with the lists `tokens` and `tags`."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            words, tags = row["tokens"], row["tags"]
            group = str(row[data.group_column]) if data.group_column else ""
            fits = all(isinstance(x, str) for x in (*words, *tags)) and len(words) == len(tags)
        except (ValueError, KeyError, TypeError):
            fits = False
        if not fits:
            keys = f", and {data.group_column!r}" if data.group_column else ""
            problems.append(
                f"line {number}: expected an object with `tokens` and `tags`, lists of as many "
                f"strings{keys}"
            )
            continue
        yield from _sentence(number, words, tags, group, problems)


def _sentence(
    line: int, words: list[str], tags: list[str], group: str, problems: list[str]
) -> Iterator[Example]:
    if not words:
        problems.append(f"line {line}: a sentence without words")
    elif len(words) > _MOST_WORDS:
        problems.append(
            f"line {line}: a sentence of {len(words):,} words, more than {_MOST_WORDS:,}; separate "
            "sentences by blank lines"
        )
    elif any(not word.strip() or re.search(r"[\t\n]", word) for word in words):
        problems.append(f"line {line}: a word is empty, or holds a tab or a line end")
    elif any(not tag or re.search(r"\s", tag) for tag in tags):
        problems.append(f"line {line}: a tag is empty, or holds a space")
    else:
        yield Example(f"line {line}", "\t".join(words), " ".join(tags), group)


def _swapped(examples: Sequence[Example]) -> Iterator[str]:
    """A line if words and tags seem to have each other's place."""
    words = {word for e in examples for word in e.excerpt.split("\t")}
    tags = {tag for e in examples for tag in e.target.split(" ")}
    if len(tags) > 2 * len(words) or (
        len(words) > 1 and all(map(_IOB.fullmatch, words)) and not all(map(_IOB.fullmatch, tags))
    ):
        yield (
            f"{examples[0].id}: the words seem to be in the column of the tags ({len(tags):,} "
            f"different tags, {len(words):,} different words): the word comes first, the tag last"
        )


def _not_iob2(example: Example) -> Iterator[str]:
    """A line for the first tag of a sentence that is not IOB2."""
    words = example.excerpt.split("\t")
    for place, (before, tag) in enumerate(pairwise(["O", *example.target.split(" ")])):
        where = f"{example.id}, word {place + 1} ({words[place]!r})"
        if not _IOB.fullmatch(tag):
            yield f"{where}: the tag {tag!r} is neither O nor B-… nor I-…"
            return
        if tag.startswith("I-") and before[2:] != tag[2:]:
            yield f"{where}: {tag} follows {before}; in IOB2, an entity begins with B-{tag[2:]}"
            return


def predict_tags(examples: Sequence[Example], folds: int) -> list[Prediction]:
    """Predict each word's tag by the other folds: the most frequent of the word, or else of its
    longest known suffix, or else of all words."""
    predictions = {}
    for fold in range(folds):
        counts: dict[str, Counter] = defaultdict(Counter)
        for example in examples:
            if example.fold != fold:
                for word, tag in zip(*_words_and_tags(example), strict=True):
                    for key in _keys(word):
                        counts[key][tag] += 1
        best = {key: min(c, key=lambda tag: (-c[tag], tag)) for key, c in counts.items()}
        for example in (e for e in examples if e.fold == fold):
            words, _ = _words_and_tags(example)
            tags = (next(best[key] for key in _keys(word) if key in best) for word in words)
            row = Prediction(example.id, fold, example.target, (" ".join(tags),))
            predictions[example.id] = row
    return [predictions[example.id] for example in examples]


def _words_and_tags(example: Example) -> tuple[list[str], list[str]]:
    return example.excerpt.split("\t"), example.target.split(" ")


def _keys(word: str) -> list[str]:
    """The word, then its suffixes from the longest, the empty one last."""
    longest = min(_SUFFIX, len(word))
    return [f"word {word}", *(word[len(word) - n :] for n in range(longest, -1, -1))]
