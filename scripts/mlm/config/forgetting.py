"""What a run is to be trained without, as `pretraining.forget` and `ask.py --forget` name it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

#: What stands before the colon, with an example of each.
KINDS = {
    "document": "document:247",
    "group": "group:1799-Adams-1",
    "file": "file:data/letters.txt",
    "pattern": "pattern:Monroe Doctrine",
}


@dataclass(frozen=True)
class Forgotten:
    """Documents of the train split: one by its number, those of a `group` or a `file`, or those
    whose text the regular expression `pattern` matches somewhere."""

    kind: str
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"


def parsed(what: str) -> Forgotten:
    """What `what` names; ValueError, in words, where it names nothing."""
    kind, colon, value = what.partition(":")
    if not colon or kind not in KINDS or not value:
        raise ValueError(
            f"{what!r} names nothing; expected something like {', '.join(KINDS.values())}"
        )
    if kind == "document" and not (value.isascii() and value.isdecimal()):
        raise ValueError(
            f"{what!r}: {value!r} is not the number of a document, counted from 0 in the train "
            "split"
        )
    if kind == "document" and value != str(int(value)):
        raise ValueError(f"{what!r}: write document:{int(value)}, without leading zeros")
    if kind == "pattern":
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"{what!r} is no regular expression: {error}") from None
    return Forgotten(kind, value)


def problems_of(path: str, whats: Iterable[str]) -> list[str]:
    """A line for each of `whats`, the list at `path`, that names nothing."""
    problems = []
    for what in whats:
        try:
            parsed(what)
        except ValueError as error:
            problems.append(f"{path}: {error}")
    return problems
