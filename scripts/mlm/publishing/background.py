"""Checkpoints pushed to the Hub while the training goes on.

At a step where one is due, the weights are copied to the host and the training continues. A
thread writes them to a directory, and a process of the lowest priority uploads it
(mlm.publishing.push_worker). While a push is under way the newest checkpoint waits, and takes the
place of one that waited before it. Nothing here stops or changes a training: what fails is
told as a warning.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mlm.foundations.child_process import child_environment
from mlm.foundations.errors import MlmError
from mlm.model.export import ExportedModel
from mlm.publishing.secrecy import token_from_environment
from mlm.training.engine import Engine
from mlm.training.periodic_actions import next_multiple


@dataclass(frozen=True)
class PushSettings:
    """How often checkpoints are pushed, in steps, and where to.

    `attempts` is how often in a row a push is tried that fails for a moment; `wait` is how many
    seconds the end of the training waits for the last push.
    """

    every: int
    repository: str
    branch: str
    private: bool
    attempts: int
    wait: float


@dataclass(frozen=True)
class Checkpoint:
    """The model at one step, copied: the training goes on meanwhile."""

    step: int
    model: ExportedModel


class BackgroundPushes:
    """The pushes of one training, a periodic action of it; `act` never waits.

    `directory` is where checkpoints lie while they are uploaded, `beside` are files that go
    with each of them.
    """

    def __init__(self, settings: PushSettings, directory: str, beside: tuple[Path, ...]):
        self._settings, self._directory = settings, Path(directory)
        self._beside = beside
        self._changed = threading.Condition()
        self._waiting: Checkpoint | None = None
        self._under_way: int | None = None
        self._ending = False
        self._worker = self._start()
        self._thread = threading.Thread(target=self._push_all, name="pushes", daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen:
        settings = self._settings
        told = {key: getattr(settings, key) for key in ("repository", "branch", "private")}
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "mlm.publishing.push_worker"),
                json.dumps(told | {"attempts": settings.attempts}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=child_environment(),
            # A Ctrl-C is for the training, which ends this process in its own time.
            process_group=0,
            text=True,
        )

    def due(self, step: int) -> int:
        """The first step after `step` at which a checkpoint is pushed."""
        return next_multiple(step, self._settings.every)

    def act(self, step: int, engine: Engine) -> None:
        """Take the model after `step`."""
        if not self._thread.is_alive():
            return
        try:
            checkpoint = Checkpoint(step, engine.exported())
        except Exception as error:
            return _warn(f"step {step} is not pushed: {type(error).__name__}: {error}")
        with self._changed:
            if self._waiting is not None:
                _say(f"step {self._waiting.step} is not pushed: step {step} is newer")
            self._waiting = checkpoint
            self._changed.notify()
        return None

    def finish(self) -> None:
        """Wait for what is under way or waiting, at most `wait` seconds; see `stop`."""
        with self._changed:
            self._ending = True
            left = self._waiting.step if self._waiting else self._under_way
            self._changed.notify()
        if left is not None and self._thread.is_alive():
            place = f"{self._settings.repository} ({self._settings.branch})"
            wait = self._settings.wait
            _say(
                f"the training is done; waiting for the push of step {left} to {place}, at most "
                f"{wait:.0f} s"
            )
            self._thread.join(wait)
            if self._thread.is_alive():
                _warn(
                    f"the push of step {left} was not done after {wait:.0f} s and is given up. "
                    "The training's own results are complete"
                )

    def stop(self) -> None:
        """End without waiting: the push that is under way is given up."""
        with self._changed:
            self._ending, self._waiting = True, None
            self._changed.notify()
        self._worker.kill()
        self._worker.wait()
        self._thread.join()
        for pipe in (self._worker.stdin, self._worker.stdout):
            # What was written for a process that has ended cannot be flushed.
            with suppress(OSError):
                pipe.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _push_all(self) -> None:
        """The thread: push the newest checkpoint, again and again."""
        while (checkpoint := self._next()) is not None:
            try:
                self._push(checkpoint)
            except Exception as error:
                if self._worker.poll() is not None:
                    if not self._ending:
                        _warn("the pushing process has ended; no more checkpoints are pushed")
                    return
                _warn(f"step {checkpoint.step} is not pushed: {type(error).__name__}: {error}")
            finally:
                with self._changed:
                    self._under_way = None

    def _next(self) -> Checkpoint | None:
        with self._changed:
            while self._waiting is None and not self._ending:
                self._changed.wait()
            checkpoint, self._waiting = self._waiting, None
            self._under_way = checkpoint.step if checkpoint else None
            return checkpoint

    def _push(self, checkpoint: Checkpoint) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        checkpoint.model.write(str(self._directory))
        for file in self._beside:
            shutil.copyfile(file, self._directory / file.name)
        request = {"step": checkpoint.step, "directory": str(self._directory.resolve())}
        self._worker.stdin.write(json.dumps(request) + "\n")
        self._worker.stdin.flush()
        for line in self._worker.stdout:
            answer = _answer(line)
            if answer is None:
                print(line, end="", file=sys.stderr)
            elif "failure" in answer:
                return _warn(f"step {checkpoint.step} is not pushed: {answer['failure']}")
            else:
                return _say(
                    f"step {checkpoint.step} is in {self._settings.repository} "
                    f"({self._settings.branch}), commit {answer['commit']}"
                )
        # Its output has ended, and it with it.
        self._worker.wait()
        raise EOFError


def _answer(line: str) -> dict | None:
    """What the pushing process answered, or None for a line that is a warning of its own."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "step" in found else None


def _say(words: str) -> None:
    print(f"publish.checkpoints: {words}", file=sys.stderr, flush=True)


def _warn(words: str) -> None:
    _say(f"warning: {words}")


@contextmanager
def background_pushes(
    settings: PushSettings | None, state: str, beside: tuple[Path, ...]
) -> Iterator[BackgroundPushes | None]:
    """The pushes of the training inside; None where none are asked for or there is no token.

    The end waits for the last push; an error, such as being stopped, does not. `state` is the
    training's own directory: checkpoints lie below it, or below a temporary one where it is
    in a bucket.
    """
    pushes = None
    if settings is not None:
        try:
            token_from_environment()
            place = f"{state}/pushes" if "://" not in state else tempfile.mkdtemp("-pushes")
            pushes = BackgroundPushes(settings, place, beside)
        except (MlmError, OSError) as error:
            _warn(f"no checkpoints are pushed: {error}")
    try:
        yield pushes
        if pushes is not None:
            pushes.finish()
    finally:
        if pushes is not None:
            pushes.stop()
