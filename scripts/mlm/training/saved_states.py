"""The state of a training: saved so that a kill costs time only.

A state is a file `{run}/{digest of its basis}/step-00000200.state` in a directory or a bucket
(`pretraining.checkpoint.directory`). Its first line has what the training
was made from, the progress, and the digest of what follows: the arrays, as safetensors. Damaged
states are skipped; neither `tf.train.CheckpointManager` nor Orbax survives a changed byte.
"""

import fcntl
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path

from pyarrow.fs import FileSelector, FileSystem, GcsFileSystem, LocalFileSystem

from mlm.foundations.atomic import replacing
from mlm.foundations.digests import differences, value_sha256
from mlm.foundations.errors import MlmError, first_line
from mlm.foundations.terminal import show

_STATE = re.compile(r"step-(\d{8,})\.state")
#: How long a failing request to Google Cloud Storage is repeated.
_RETRIES = timedelta(minutes=2)


@dataclass(frozen=True)
class SavedState:
    """The state after `step` updates: its `progress`, JSON-like, and the `arrays` of an engine."""

    step: int
    progress: dict
    arrays: bytes


@dataclass
class StateDirectory:
    """Saved states of one `basis` (see `state_basis`) under `path`, a directory or a gs:// prefix:
    the last `keep` (None: all), and those after `keep_steps`. Only rank 0 locks and writes."""

    path: str
    keep: int | None
    basis: dict = field(default_factory=dict)
    keep_steps: Collection[int] = ()
    is_rank0: bool = True

    @classmethod
    def of(cls, directory: str, keep: int | None, basis: dict, *others) -> "StateDirectory":
        """Return the states of `basis` in `directory`: below its digest, apart from all others."""
        return cls(f"{directory}/{value_sha256(basis)[:16]}", keep, basis, *others)

    def locked(self) -> AbstractContextManager:
        """Make the directory and, if local, lock it while the context lasts. Raises MlmError if it
        cannot be written, or if another process has the lock."""
        if not self.is_rank0:
            return nullcontext()
        advice = "give the right to write, or name another directory"
        try:
            if not _is_local(self.path):
                advice += ". A bucket must exist, and needs gcloud auth application-default login"
                write_bytes(f"{self.path}/lock", b"")
                return nullcontext()
            os.makedirs(self.path, exist_ok=True)
            file = open(f"{self.path}/lock", "a")
        except OSError as error:
            raise MlmError(
                f"pretraining.checkpoint.directory: cannot write to {self.path} "
                f"({_reason(error)}). Training state must be saved somewhere: {advice}"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MlmError(
                f"{self.path} is in use: another process trains this very run. Wait for it or stop "
                "it; two writers would remove each other's states"
            ) from error
        except OSError:  # a file system without such locks
            pass
        for left in Path(self.path).glob(".*.partial"):
            left.unlink()
        return file  # which unlocks it as it is closed

    def steps(self) -> list[int]:
        """Return the steps of the states that are there, newest first, damaged or not."""
        matches = (_STATE.fullmatch(name) for name in _names_in(self.path))
        return sorted((int(match[1]) for match in matches if match), reverse=True)

    def abandoned(self) -> list[str]:
        """Return a line for each directory with states of the run under another basis, with what
        differs: first the settings, last the code."""
        run, lines = self.path.rpartition("/")[0], []
        for other in (StateDirectory(f"{run}/{name}", None) for name in _names_in(run)):
            if other.path == self.path or not (steps := other.steps()):
                continue
            what = "it does not say what it was made from"
            for path in map(other.file, steps):
                with suppress(ValueError):
                    different = differences(_read(path)[0]["basis"], self.basis)[::-1]
                    what = "; ".join(different[:6]) + "; and more" * (len(different) > 6)
                    break
            lines.append(f"{other.path}: {what}")
        return lines

    def file(self, step: int) -> str:
        return f"{self.path}/step-{step:08d}.state"

    def save(self, step: int, arrays: Callable[[], bytes], progress: dict) -> None:
        """Write the state after `step` updates, then remove later ones, which are damaged, and
        those not to be kept. Raises MlmError if it cannot be written; earlier ones stay."""
        if not self.is_rank0:
            return
        content = arrays()
        header = {"basis": self.basis, "progress": progress, "arrays": _sha256(content)}
        line = json.dumps(header | {"seal": value_sha256(header)})
        try:
            write_bytes(self.file(step), line.encode(), b"\n", content)
        except OSError as error:
            raise MlmError(
                f"The state after step {step} could not be saved in {self.path}: "
                f"{_reason(error)}. The states before it are untouched; free space "
                "or rights there, and the same command resumes from the last one"
            ) from error
        last = [other for other in self.steps() if other <= step][: self.keep]
        for other in self.steps():
            if other not in last and not (other < step and other in self.keep_steps):
                system, path = _located(self.file(other))
                system.delete_file(path)

    def branch(self, step: int) -> SavedState:
        """Return the state after `step` updates, for another run to begin with, or MlmError."""
        if state := self.newest(only=step):
            return state
        there = ", ".join(map(str, sorted(self.steps()))) or "none"
        raise MlmError(
            f"pretraining.continue_from: {self.path} holds no whole state after step {step} "
            f"(states there: {there}). Continue from one that is there; or set run and step to "
            "null, and the training begins at its first step and ends with the same weights. "
            "checkpoint.keep_steps keeps a step in future, and checkpoint.keep: null keeps all"
        )

    def newest(self, only: int | None = None) -> SavedState | None:
        """Return the newest whole state, or with `only` that after this step; None without one.
        Warn on stderr of each that is damaged or of another training."""
        for step in [step for step in self.steps() if only in (None, step)]:
            try:
                header, arrays = _read(self.file(step))
                if header["basis"] != self.basis:
                    raise ValueError("it is of another training")
                return SavedState(step, header["progress"], arrays)
            except ValueError as fault:
                show(f"Warning: state {self.file(step)} is skipped: {fault}")
        return None


def _read(path: str) -> tuple[dict, bytes]:
    """Return the first line of a state and its arrays. Raises ValueError if they are not whole."""
    with _opened(path) as file:
        line, arrays = file.readline(), file.read()
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        header = json.loads(line)
        if header.pop("seal") == value_sha256(header) and header["arrays"] == _sha256(arrays):
            return header, arrays
    raise ValueError("it is damaged")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _reason(error: Exception) -> str:
    """Return the first line of the error, without the details that Google's client adds."""
    return first_line(error).partition(" error_info=")[0]


def _is_local(path: str) -> bool:
    return "://" not in path


@cache
def cloud_storage() -> FileSystem:
    """Google Cloud Storage, or the server that the variable of Google's clients names."""
    if not (emulator := os.environ.get("STORAGE_EMULATOR_HOST")):
        return GcsFileSystem(retry_time_limit=_RETRIES)
    scheme, _, host = emulator.rpartition("://")
    how = {"scheme": scheme or "http", "endpoint_override": host, "anonymous": True}
    return GcsFileSystem(retry_time_limit=_RETRIES, **how)


def _located(path: str) -> tuple[FileSystem, str]:
    """Return the file system of `path`, and the path there."""
    return (LocalFileSystem() if _is_local(path) else cloud_storage()), path.removeprefix("gs://")


def _names_in(directory: str) -> list[str]:
    """Return the sorted names in `directory`; in a bucket, of files and their prefixes."""
    system, base = _located(directory)
    infos = system.get_file_info(FileSelector(base, allow_not_found=True, recursive=True))
    return sorted({info.path.removeprefix(f"{base}/").partition("/")[0] for info in infos})


def _opened(path: str) -> io.BufferedReader:
    system, base = _located(path)
    return io.BufferedReader(system.open_input_stream(base))


def write_bytes(path: str, *parts: bytes) -> None:
    """Write `parts` as a file that is there as a whole or not at all."""
    if not _is_local(path):
        with cloud_storage().open_output_stream(path.removeprefix("gs://")) as stream:
            stream.writelines(parts)
        return
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.writelines(parts)
