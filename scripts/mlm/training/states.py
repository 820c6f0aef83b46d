"""The state of a training: saved so that a kill costs time only.

A state is a directory `step-00000200`, here or under gs://, with the arrays and `complete.json`,
written last, which has the progress, what the training was made from, and the digest of the arrays.
Incomplete and damaged states are skipped; neither `tf.train.CheckpointManager` nor Orbax survives a
changed byte.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache

from pyarrow.fs import FileInfo, FileSelector, FileSystem, GcsFileSystem, LocalFileSystem

from mlm.foundations.digests import differences, value_sha256
from mlm.foundations.errors import MlmError, first_line
from mlm.foundations.terminal import show

_ARRAYS, _MARKER = "state.safetensors", "complete.json"
_STATE = re.compile(r"step-(\d{8,})")
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
        except OSError as error:
            raise MlmError(
                f"{self.path} is in use: another process trains this very run. Wait for it or stop "
                "it; two writers would remove each other's states"
            ) from error
        for name in _names_in(self.path):
            if name.endswith(".partial"):
                _remove_directory(f"{self.path}/{name}")
        return file  # which unlocks it as it is closed

    def steps(self) -> list[int]:
        """Return the steps of the states that are there, newest first, complete or not."""
        matches = (_STATE.fullmatch(name) for name in _names_in(self.path))
        return sorted((int(match[1]) for match in matches if match), reverse=True)

    def abandoned(self) -> list[str]:
        """Return a line for each directory with states of the run under another basis, with what
        differs: first the settings, last code and packages."""

        def rank(line: str) -> tuple[bool, bool]:
            brought = line.startswith(("code ", "packages."))
            return brought, not line.startswith(("pretraining.", "settings."))

        run, lines = self.path.rpartition("/")[0], []
        for other in (StateDirectory(f"{run}/{name}", None) for name in _names_in(run)):
            if other.path == self.path or not (steps := other.steps()):
                continue
            what = "it does not say what it was made from"
            for place in map(other._place, steps):
                with suppress(ValueError):
                    different = sorted(differences(_marker(place)["basis"], self.basis), key=rank)
                    what = "; ".join(different[:6]) + "; and more" * (len(different) > 6)
                    break
            lines.append(f"{other.path}: {what}")
        return lines

    def _place(self, step: int) -> str:
        return f"{self.path}/step-{step:08d}"

    def save(self, step: int, arrays: Callable[[], bytes], progress: dict) -> None:
        """Write the state after `step` updates, then remove later ones, which are damaged, and
        those not to be kept. Raises MlmError if it cannot be written; earlier ones stay."""
        if not self.is_rank0:
            return
        final = self._place(step)
        place = f"{final}.partial" if _is_local(final) else final
        try:
            _remove_directory(place)
            content = arrays()
            write_bytes(f"{place}/{_ARRAYS}", content)
            marker = {"basis": self.basis, "progress": progress, "arrays": _identity(content)}
            sealed = marker | {"seal": value_sha256(marker)}
            write_bytes(f"{place}/{_MARKER}", json.dumps(sealed, sort_keys=True).encode())
            if place != final:
                _remove_directory(final)
                os.rename(place, final)
        except OSError as error:
            with suppress(OSError):
                _remove_directory(place)
            raise MlmError(
                f"The state after step {step} could not be saved in {self.path}: "
                f"{_reason(error)}. The states before it are untouched; free space "
                "or rights there, and the same command resumes from the last one"
            ) from error
        last = [other for other in self.steps() if other <= step][: self.keep]
        for other in self.steps():
            if other not in last and not (other < step and other in self.keep_steps):
                _remove_directory(self._place(other))

    def branch(self, step: int) -> SavedState:
        """Return the state after `step` updates, from which another run begins. Raises MlmError if
        it is not there."""
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
            place = self._place(step)
            try:
                marker = _marker(place)
                if marker["basis"] != self.basis:
                    raise ValueError("it is of another training")
                return SavedState(step, marker["progress"], _arrays(place, marker))
            except ValueError as fault:
                show(f"Warning: state {place} is skipped: {fault}")
        return None


def _marker(place: str) -> dict:
    """Return the content of the marker. Raises ValueError, which says why, if it is not whole."""
    try:
        marker = json.loads(read_bytes(f"{place}/{_MARKER}"))
        if marker.pop("seal") == value_sha256(marker):
            return marker
    except FileNotFoundError:
        raise ValueError("it was never completed") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ValueError(f"{_MARKER} is damaged")


def _arrays(place: str, marker: dict) -> bytes:
    try:
        content = read_bytes(f"{place}/{_ARRAYS}")
    except FileNotFoundError:
        raise ValueError(f"{_ARRAYS} is missing") from None
    if _identity(content) != marker["arrays"]:
        raise ValueError(f"{_ARRAYS} is damaged")
    return content


def _identity(content: bytes) -> list:
    return [len(content), hashlib.sha256(content).hexdigest()]


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


def _infos_below(directory: str) -> list[FileInfo]:
    system, path = _located(directory)
    return system.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))


def _names_in(directory: str) -> list[str]:
    """Return the sorted names in `directory`; in a bucket, of files and their prefixes."""
    _, base = _located(directory)
    paths = (info.path.removeprefix(f"{base}/") for info in _infos_below(directory))
    return sorted({path.partition("/")[0] for path in paths})


def _remove_directory(path: str) -> None:
    if _is_local(path):
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
        return
    for info in _infos_below(path):
        cloud_storage().delete_file(info.path)


def read_bytes(path: str) -> bytes:
    system, base = _located(path)
    with system.open_input_stream(base) as file:
        return file.read()


def write_bytes(path: str, content: bytes) -> None:
    """Write a file; on a local disk, make its directory, and flush the file to the disk."""
    if not _is_local(path):
        with cloud_storage().open_output_stream(path.removeprefix("gs://")) as stream:
            stream.write(content)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
