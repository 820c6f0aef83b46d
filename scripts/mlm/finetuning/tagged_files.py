"""Sentences whose words have tags, from the lines of CoNLL or JSONL files.

An example holds its words, separated by tabs, as the text, and their tags, separated by spaces, as
the target.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from mlm.config.finetune import FinetuneData
from mlm.finetuning.artefacts import Example

#: Words of a sentence at most: more are sentences without a blank line between them.
_MOST_WORDS = 5000
_IOB = re.compile(r"O|[BI]-.+")
_DOCUMENT = "-DOCSTART-"


def tagged_sentences(
    lines: Sequence[str], data: FinetuneData
) -> tuple[list[Example], Sequence[str]]:
    """Return the sentences of CoNLL or JSONL, and the lines that cannot be used, in words."""
    problems: list[str] = []
    read = _conll if data.source == "conll" else _jsonl
    examples = list(read(lines, data, problems))
    if not problems and any(t[:2] in ("B-", "I-") for e in examples for t in e.target.split(" ")):
        problems = [problem for example in examples for problem in _not_iob2(example)]
    return examples, problems


def _conll(lines: Sequence[str], data: FinetuneData, problems: list[str]) -> Iterator[Example]:
    """The sentences of lines with a word and, last, its tag; blank lines end a sentence, and
    -DOCSTART- begins a document, which is a group."""
    first = next((x for x in lines if x.strip() and not x.startswith(_DOCUMENT)), "")
    separator = "\t" if "\t" in first else None
    width = max(len(first.split(separator)), 2)
    words, tags, start, document = [], [], 1, 0
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip() and not line.startswith(_DOCUMENT):
            cells = [cell.strip() for cell in line.rstrip("\r\n").split(separator)]
            if len(cells) != width or not (cells[0] and cells[-1]):
                problems.append(
                    f"line {number}: {line[:40]!r} is not a word and its tag in {width} columns "
                    f"separated by {'tabs' if separator else 'spaces'}, as the first line is"
                )
                continue
            start = start if words else number
            words.append(cells[0])
            tags.append(cells[-1])
            continue
        if words:
            group = f"document {document}" if document else ""
            yield from _sentence(start, words, tags, group, problems)
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
        if fits:
            yield from _sentence(number, words, tags, group, problems)
            continue
        keys = f", and {data.group_column!r}" if data.group_column else ""
        problems.append(
            f"line {number}: expected an object with `tokens` and `tags`, lists of as many "
            f"strings{keys}"
        )


def _sentence(
    line: int, words: list[str], tags: list[str], group: str, problems: list[str]
) -> Iterator[Example]:
    problem = ""
    if not words:
        problem = "a sentence without words"
    elif len(words) > _MOST_WORDS:
        problem = f"a sentence of {len(words):,} words, more than {_MOST_WORDS:,}; separate "
        problem += "sentences by blank lines"
    elif any(not word.strip() or re.search(r"[\t\n]", word) for word in words):
        problem = "a word is empty, or holds a tab or a line end"
    elif any(not tag or re.search(r"\s", tag) for tag in tags):
        problem = "a tag is empty, or holds a space"
    if problem:
        problems.append(f"line {line}: {problem}")
    else:
        yield Example(f"line {line}", "\t".join(words), " ".join(tags), group)


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
