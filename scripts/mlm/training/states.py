"""The state of a training: saved so that a kill costs time only.

A state is a directory `step-00000200` with the variables, the progress, and `complete.json`,
written last, which has the digests of the other files and what the training was made from. What is
incomplete or damaged is skipped; neither `tf.train.CheckpointManager` nor Orbax survives a changed
byte.
"""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from mlm.foundations.digests import differences, value_sha256
from mlm.foundations.errors import MlmError, first_line
from mlm.foundations.terminal import show
from mlm.training.state_files import (
    file_lock,
    is_local,
    make_directory,
    names_in,
    read_bytes,
    remove_directory,
    size_and_digest,
    write_bytes,
)

_MARKER, _PROGRESS = "complete.json", "progress.json"
_STATE = re.compile(r"step-(\d{8,})")


class State(Protocol):
    """Everything that a resumed process needs to compute the same bits."""

    def write(self, place: str) -> None:
        """Write files below `place`, a directory or gs:// prefix that is there."""


@dataclass
class StateDirectory:
    """Saved states under `path`, a directory or a gs:// prefix, of trainings made from `basis`: the
    last `keep` (None: all), and those after `keep_steps`. Only rank 0 locks and writes."""

    path: str
    keep: int | None
    basis: dict = field(default_factory=dict)
    keep_steps: Collection[int] = ()
    is_rank0: bool = True

    @classmethod
    def of(cls, directory: str, keep: int | None, basis: dict, *others) -> "StateDirectory":
        """Those in `directory`, below the fingerprint of their `basis`."""
        return cls(f"{directory}/{_fingerprint(basis)}", keep, basis, *others)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the directory and, if local, lock it; MlmError if it is locked or read-only."""
        with ExitStack() as locked:
            if self.is_rank0:
                self._acquire(locked)
            yield

    def _acquire(self, locked: ExitStack) -> None:
        advice = "give the right to write, or name another directory"
        try:
            if not is_local(self.path):
                advice += ". A bucket must exist, and needs gcloud auth application-default login"
                write_bytes(f"{self.path}/lock", b"")
                return
            make_directory(self.path)
            locked.enter_context(file_lock(self.path))
            for name in names_in(self.path):
                if name.endswith(".partial"):
                    remove_directory(f"{self.path}/{name}")
        except OSError as error:
            raise MlmError(
                f"pretraining.checkpoint.directory: cannot write to {self.path} "
                f"({_reason(error)}). Training state must be saved somewhere: {advice}"
            ) from error

    def steps(self) -> list[int]:
        """Steps of the states that are there, newest first, complete or not."""
        matches = (_STATE.fullmatch(name) for name in names_in(self.path))
        return sorted((int(match[1]) for match in matches if match), reverse=True)

    def abandoned(self) -> list[str]:
        """Lines that name the directories of the run's other states, and what differs."""
        run = self.path.rpartition("/")[0]
        others = (StateDirectory(f"{run}/{name}", None) for name in names_in(run))
        return [
            f"{other.path}: {self._difference(other)}"
            for other in others
            if other.path != self.path and other.steps()
        ]

    def _difference(self, other: "StateDirectory") -> str:
        """In words, what differs between this training and the one with the states of `other`."""
        markers = (marker_or_fault(other._place(step))[0] for step in other.steps())
        basis = next((m["basis"] for m in markers if "basis" in m), None)
        if basis is None:
            return "it does not say what it was made from"

        def rank(line: str) -> tuple[bool, bool]:
            """First what a user sets, last what an engine brings along."""
            brought = line.startswith(("code ", "packages."))
            return brought, not line.startswith(("pretraining.", "settings."))

        lines = sorted(differences(basis, self.basis), key=rank)
        return "; ".join(lines[:6]) + ("; and more" if len(lines) > 6 else "")

    def _place(self, step: int) -> str:
        return f"{self.path}/step-{step:08d}"

    def save(self, step: int, state: State, progress: dict) -> None:
        """Write the state after `step` updates, then drop those after it and those not to be kept;
        MlmError if it cannot be written, those before it staying."""
        if not self.is_rank0:
            return
        final, local = self._place(step), is_local(self.path)
        place = final + ".partial" if local else final
        try:
            remove_directory(place)
            make_directory(place)
            state.write(place)
            write_bytes(f"{place}/{_PROGRESS}", json.dumps(progress).encode())
            files = {name: size_and_digest(f"{place}/{name}") for name in names_in(place)}
            marker = {"fingerprint": _fingerprint(self.basis), "basis": self.basis, "files": files}
            write_bytes(f"{place}/{_MARKER}", json.dumps(marker, sort_keys=True).encode())
            if local:
                _flush_and_rename(place, final)
        except OSError as error:
            with suppress(OSError):
                remove_directory(place)
            raise MlmError(
                f"The state after step {step} could not be saved in {self.path}: "
                f"{_reason(error)}. The states before it are untouched; free space "
                "or rights there, and the same command resumes from the last one"
            ) from error
        last = [other for other in self.steps() if other <= step][: self.keep]
        for other in self.steps():
            if other not in last and not (other < step and other in self.keep_steps):
                remove_directory(self._place(other))

    def newest_whole(self, only: int | None = None) -> tuple[str, int, dict] | None:
        """Place, step and progress of the newest whole state (with `only`, of that step), or
        None; damaged ones are named on stderr. MlmError for a state of another training."""
        for step in [step for step in self.steps() if only in (None, step)]:
            place = self._place(step)
            marker, fault = marker_or_fault(place)
            if fault:
                show(f"Warning: state {place} is skipped: {fault}")
                continue
            if marker["fingerprint"] != _fingerprint(self.basis):
                raise MlmError(
                    f"{place} is the state of another training: {self._difference(self)}. Move "
                    "it away, or name another pretraining.checkpoint.directory"
                )
            return place, step, json.loads(read_bytes(f"{place}/{_PROGRESS}"))
        return None


def _reason(error: Exception) -> str:
    """What went wrong, without the details that Google's client adds."""
    return first_line(error).partition(" error_info=")[0]


def _flush_and_rename(place: str, final: str) -> None:
    for name in os.listdir(place):
        with open(f"{place}/{name}", "rb+") as handle:
            os.fsync(handle.fileno())
    shutil.rmtree(final, ignore_errors=True)
    os.rename(place, final)


def _fingerprint(basis: dict) -> str:
    return value_sha256(basis)[:16]


def marker_or_fault(place: str) -> tuple[dict, str | None]:
    """The marker of the state at `place`, and what is wrong with the state, in words."""
    try:
        marker = json.loads(read_bytes(f"{place}/{_MARKER}"))
        files, _ = marker["files"], marker["fingerprint"]
    except FileNotFoundError:
        return {}, "it was never completed"
    except (ValueError, KeyError, TypeError):
        return {}, f"{_MARKER} is damaged"
    for name, expected in files.items():
        try:
            if size_and_digest(f"{place}/{name}") != expected:
                return marker, f"{name} is damaged"
        except FileNotFoundError:
            return marker, f"{name} is missing"
    return marker, None
