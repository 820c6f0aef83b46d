"""The one kind of error that a user is meant to read."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class MlmError(Exception):
    """A problem that the user can mend.

    The message says what was found, where, what was expected and what to do.
    It is shown without a traceback.
    """


def listed(problems: Iterable[str]) -> str:
    """`problems` as lines of a message."""
    return "\n".join(f"  - {problem}" for problem in problems)


class ConfigError(MlmError):
    """One or more problems in the configuration, all reported at once.

    `problems` holds one line for each.
    """

    def __init__(self, problems: list[str]):
        self.problems = list(problems)
        count = len(self.problems)
        title = f"The configuration has {count} problem{'s' if count != 1 else ''}:"
        super().__init__(f"{title}\n{listed(self.problems)}")


def remedy(*paths: str | os.PathLike) -> str:
    """How to have damaged or stale results made again: the command, in a sentence."""
    files = " ".join(sorted({str(path) for path in paths}))
    command = "gcloud storage rm" if files.startswith("gs://") else "rm"
    return f"To have it made again: {command} {files}, then the same snakemake command"


@contextmanager
def reading(path: str | os.PathLike, what: str) -> Iterator[None]:
    """Whatever goes wrong meanwhile, in reading the result `path` as `what`, is damage to it.

    For files of this workflow that other libraries parse, each of which has errors of its own.
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
