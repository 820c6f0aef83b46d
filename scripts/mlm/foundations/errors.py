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
#: The name of the user's last command in a message.
SAME_COMMAND = "the same snakemake command"
#: How the sentence of `remedy` begins.
HOW_TO_REMAKE = "To have it made again"
#: A full disk in the words of a library, after the file's name.
_FULL = re.compile(rf"(?:(\S+); )?(?:{os.strerror(errno.ENOSPC)}|{os.strerror(errno.EDQUOT)})")


def printable(text: str) -> str:
    """Return `text` for a terminal or a log, with escapes such as `\\x1b` for hidden characters."""
    return HIDDEN.sub(lambda hidden: hidden[0].encode("unicode_escape").decode(), text)


def on_one_line(text: str) -> str:
    """Return `printable` text with each line break and tab as a space."""
    return printable("".join(" " if c.isspace() else c for c in text))


class MlmError(Exception):
    """A problem that the user can mend, shown without a traceback: what was found, where, what was
    expected and what to do. Hidden characters are escaped."""

    def __init__(self, message: str):
        super().__init__(printable(message))


def first_line(error: Exception) -> str:
    """Return the first line of what the system or a library says."""
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0]


def listed(problems: Iterable[str]) -> str:
    """Return `problems` as lines of a message."""
    return "\n".join(f"  - {problem}" for problem in problems)


class ConfigError(MlmError):
    """One or more problems in the configuration, all reported at once, `problems` by line."""

    def __init__(self, problems: list[str]):
        self.problems = list(problems)
        count = len(self.problems)
        title = f"The configuration has {count} problem{'s' if count != 1 else ''}:"
        super().__init__(f"{title}\n{listed(self.problems)}")


def remedy(*paths: str | os.PathLike) -> str:
    """Return the command that has damaged or stale results made again, in a sentence."""
    files = " ".join(sorted({str(path) for path in paths}))
    command = "gcloud storage rm" if files.startswith("gs://") else "rm"
    return f"{HOW_TO_REMAKE}: {command} {files}, then {SAME_COMMAND}"


@contextmanager
def reading(path: str | os.PathLike, what: str) -> Iterator[None]:
    """Re-raise any error in reading the result `path` as `what` as an MlmError with its remedy,
    except an MlmError and what the operating system refuses."""
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
    """Return the message of an error that a user can mend: an MlmError, or what the operating
    system refused, also inside a library's own error. None for any other, which is a bug."""
    if isinstance(error, MlmError):
        return str(error)
    number, path = None, None
    if isinstance(error, OSError):
        number, path = error.errno, error.filename
    elif full := _FULL.search(str(error)):
        number, path = errno.ENOSPC, full[1]
    if number in (errno.ENOSPC, errno.EDQUOT):
        where = f" ({path})" if path else ""
        message = (
            f"No space left on the disk or in the quota{where}. Nothing was half-written; free "
            "some space and run the same command again."
        )
    elif number in (errno.EACCES, errno.EPERM, errno.EROFS):
        path = path and _refused(Path(path))
        message = (
            f"{path or 'A file'}: {os.strerror(number)}. Give this user access to it (its owner "
            f"can: chmod -R u+rwX {path or 'FILE'}), or run in another directory (snakemake "
            "--directory)."
        )
    else:
        return None
    return str(MlmError(message))


def _refused(path: Path) -> Path:
    """Return the file or directory on the way to `path` that this user may not read."""
    for part in (*reversed(path.parents), path):
        mode = os.R_OK | (os.X_OK if part.is_dir() else 0)
        if part.exists() and not os.access(part, mode):
            return part
    return path
