"""The one kind of error that a user is meant to read."""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: Characters that control a terminal, reorder what surrounds them or cannot be seen; but for the
#: joiners U+200C and U+200D, which scripts and emoji need.
HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    r"\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)
#: Text between quotation marks, or without a space.
_VALUE = re.compile(r"(?<!\w)(['\"])(?:\\.|(?!\1)[^\\\n])*\1|\S+")
#: How a message calls the command that was given.
SAME_COMMAND = "the same snakemake command"
#: How the sentence of `remedy` begins.
HOW_TO_REMAKE = "To have it made again"
_LONGEST_VALUE, _LONGEST_LINE = 300, 4000
_FULL = (errno.ENOSPC, errno.EDQUOT)


def printable(text: str) -> str:
    """`text` for a terminal or a log: hidden characters become escapes such as `\\x1b`."""
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def on_one_line(text: str) -> str:
    """`printable` text with each line break and tab as a space."""
    return printable("".join(" " if c.isspace() else c for c in text))


def shortened(text: str, longest: int) -> str:
    """`text` with its middle left out if it has more than `longest` characters."""
    if len(text) <= longest:
        return text
    head, tail = longest // 2, longest // 4
    return f"{text[:head]} … ({len(text) - head - tail:,} characters left out) … {text[-tail:]}"


class MlmError(Exception):
    """A problem that the user can mend, shown without a traceback.

    The message says what was found, where, what was expected and what to do. Names and values in it
    become printable and are shortened.
    """

    def __init__(self, message: str):
        words = _VALUE.sub(lambda v: shortened(v[0], _LONGEST_VALUE), printable(message))
        super().__init__("\n".join(shortened(line, _LONGEST_LINE) for line in words.split("\n")))


def first_line(error: Exception) -> str:
    """The first line of what the system or a library says."""
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0]


def listed(problems: Iterable[str]) -> str:
    """`problems` as lines of a message."""
    return "\n".join(f"  - {problem}" for problem in problems)


class ConfigError(MlmError):
    """One or more problems in the configuration, all reported at once, `problems` by line."""

    def __init__(self, problems: list[str]):
        self.problems = list(problems)
        count = len(self.problems)
        title = f"The configuration has {count} problem{'s' if count != 1 else ''}:"
        super().__init__(f"{title}\n{listed(self.problems)}")


def remedy(*paths: str | os.PathLike) -> str:
    """How to have damaged or stale results made again: the command, in a sentence."""
    files = " ".join(sorted({str(path) for path in paths}))
    command = "gcloud storage rm" if files.startswith("gs://") else "rm"
    return f"{HOW_TO_REMAKE}: {command} {files}, then {SAME_COMMAND}"


@contextmanager
def reading(path: str | os.PathLike, what: str) -> Iterator[None]:
    """Whatever goes wrong meanwhile, in reading the result `path` as `what`, is damage to it.

    Raises MlmError with the file and how to have it made again; an MlmError, and what the
    operating system refuses, pass as they are.
    """
    try:
        yield
    except MlmError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise MlmError(
            f"{path} is damaged: it cannot be read as {what} ({reason}). {remedy(path)}"
        ) from None


def error_in_words(error: BaseException) -> str | None:
    """The message of an error that a user can mend: an MlmError, or what the operating system
    refused, also inside a library's own error. None for any other, which is a bug."""
    if isinstance(error, MlmError):
        return str(error)
    number, place = None, None
    if isinstance(error, OSError):
        number, place = error.errno, error.filename
    else:
        for full in _FULL:
            if found := re.search(rf"(?:(\S+); )?{os.strerror(full)}", str(error)):
                number, place = full, found[1]
    if number in _FULL:
        where = f" ({place})" if place else ""
        message = (
            f"No space left on the disk or in the quota{where}. Nothing was half-written; free "
            "some space and run the same command again."
        )
    elif number in (errno.EACCES, errno.EPERM, errno.EROFS):
        place = place and _refused(Path(place))
        message = (
            f"{place or 'A file'}: {error.strerror}. Give this user access to it (its owner can: "
            f"chmod -R u+rwX {place or 'FILE'}), or run in another directory (snakemake "
            "--directory)."
        )
    else:
        return None
    return str(MlmError(message))


def _refused(path: Path) -> Path:
    """The file or directory on the way to `path` that this user may not read."""
    for place in (*reversed(path.parents), path):
        wanted = os.R_OK | (os.X_OK if place.is_dir() else 0)
        if place.exists() and not os.access(place, wanted):
            return place
    return path
