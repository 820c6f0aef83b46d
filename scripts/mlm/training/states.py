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
from mlm.training.gfile import (
    exists,
    make_directory,
    names_in,
    read_bytes,
    remove_directory,
    size_and_digest,
    write_bytes,
)
from mlm.training.state_locks import Lease, file_lock

_MARKER = "complete.json"
_STATE = re.compile(r"step-(\d{8,})")


class State(Protocol):
    """Everything that a resumed process needs to compute the same bits."""

    def write(self, place: str) -> None:
        """Write files below `place`, a directory or gs:// prefix that is there."""

    def read(self, place: str) -> None:
        """Take the state from there."""


@dataclass
class StateDirectory:
    """Saved states under `path`, a local directory or a gs:// prefix, of trainings made from
    `basis`: the last `keep` (None: all), and those after `keep_steps`. Only rank 0 locks and
    writes."""

    path: str
    keep: int | None
    basis: dict = field(default_factory=dict)
    keep_steps: Collection[int] = ()
    is_rank0: bool = True
    _lease: Lease | None = field(default=None, repr=False)

    @classmethod
    def of(cls, directory: str, keep: int | None, basis: dict, *others) -> "StateDirectory":
        """Those in `directory`, below the fingerprint of their `basis`."""
        return cls(f"{directory}/{_fingerprint(basis)}", keep, basis, *others)

    @property
    def fingerprint(self) -> str:
        """A short digest of all that the states were made from."""
        return _fingerprint(self.basis)

    @property
    def _local(self) -> bool:
        return "://" not in self.path

    @contextmanager
    def held(self) -> Iterator[None]:
        """The directory, made and locked; MlmError if another process holds it or it is
        read-only."""
        with ExitStack() as locked:
            if self.is_rank0:
                self._acquire(locked)
            try:
                yield
            finally:
                self._lease = None

    def _acquire(self, locked: ExitStack) -> None:
        try:
            make_directory(self.path)
            if not self._local:
                self._lease = Lease(self.path)
                locked.callback(self._lease.release)
                return
            locked.enter_context(file_lock(self.path))
            for name in names_in(self.path):
                if name.endswith(".partial"):
                    remove_directory(f"{self.path}/{name}")
        except OSError as error:
            advice = "give the right to write, or name another directory"
            if not self._local:
                advice += ". A bucket must exist, and needs gcloud auth application-default login"
            raise MlmError(
                f"pretraining.checkpoint.directory: cannot write to {self.path} "
                f"({_reason(error)}). Training state must be saved somewhere: {advice}"
            ) from error

    def steps(self) -> list[int]:
        """Steps of the states that are there, newest first, complete or not."""
        found = (_STATE.fullmatch(name) for name in names_in(self.path))
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def others(self) -> list[str]:
        """States of the same run that other settings, data or code have made: directories."""
        run = self.path.rpartition("/")[0]
        found = [f"{run}/{name}" for name in names_in(run)]
        return [o for o in found if o != self.path and StateDirectory(o, None).steps()]

    def abandoned(self) -> list[str]:
        """In words, the `others` and what differs."""
        return [f"{other}: {self.difference(other)}" for other in self.others()]

    def difference(self, other: str) -> str:
        """In words, what differs between this training and the one with states in `other`."""
        there = StateDirectory(other, None)
        markers = (marker_or_fault(there._place(step))[0] for step in there.steps())
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
        if self._lease is not None:
            self._lease.check()
        final = self._place(step)
        place = final + ".partial" if self._local else final
        try:
            if exists(final) and not self._local:
                remove_directory(final)
            make_directory(place)
            state.write(place)
            write_bytes(f"{place}/progress.json", json.dumps(progress).encode())
            names = [name for name in names_in(place) if name != _MARKER]
            files = {name: size_and_digest(f"{place}/{name}") for name in names}
            marker = {"fingerprint": self.fingerprint, "basis": self.basis, "files": files}
            write_bytes(f"{place}/{_MARKER}", json.dumps(marker, sort_keys=True).encode())
            if self._local:
                _flush_and_rename(place, final)
        except OSError as error:
            with suppress(OSError):
                remove_directory(place)
            raise MlmError(
                f"The state after step {step} could not be saved in {self.path}: "
                f"{_reason(error)}. The states before it are untouched; free space "
                "or rights there, and the same command resumes from the last one"
            ) from error
        found = self.steps()
        kept = [other for other in found if other <= step][: self.keep]
        for other in found:
            if other not in kept and not (other < step and other in self.keep_steps):
                remove_directory(self._place(other))

    def newest_whole(self, only: int | None = None) -> tuple[str, int, dict] | None:
        """Place, step and progress of the newest whole state (with `only`, of that after so many
        steps), or None; damaged ones are named on stderr. MlmError for a state of another
        training."""
        for step in [step for step in self.steps() if only in (None, step)]:
            place = self._place(step)
            found, fault = marker_or_fault(place)
            if fault:
                show(f"Warning: state {place} is skipped: {fault}")
                continue
            if found["fingerprint"] != self.fingerprint:
                raise MlmError(
                    f"{place} is the state of another training: {self.difference(self.path)}. Move "
                    "it away, or name another pretraining.checkpoint.directory"
                )
            return place, step, json.loads(read_bytes(f"{place}/progress.json"))
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
    if not exists(f"{place}/{_MARKER}"):
        return {}, "it was never completed"
    try:
        marker = json.loads(read_bytes(f"{place}/{_MARKER}"))
        files, _ = marker["files"], marker["fingerprint"]
    except (ValueError, KeyError, TypeError):
        return {}, f"{_MARKER} is damaged"
    for name, expected in files.items():
        path = f"{place}/{name}"
        if not exists(path):
            return marker, f"{name} is missing"
        if size_and_digest(path) != expected:
            return marker, f"{name} is damaged"
    return marker, None
