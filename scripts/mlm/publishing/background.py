"""Checkpoints pushed to the Hub while the training continues: the weights are written to a
directory, which a process of the lowest priority uploads (`uploads.main`). Nothing here stops or
changes a training: what fails is a warning."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from mlm.config.publish import Publish
from mlm.foundations.environment import child_environment
from mlm.foundations.errors import MlmError
from mlm.model.export import ExportedModel
from mlm.publishing.artefacts import Destination
from mlm.publishing.secrecy import token_from_environment
from mlm.training.engine import Engine
from mlm.training.loop import next_multiple


class BackgroundPushes:
    """The pushes of one training, a periodic action of it. `directory` holds a checkpoint and the
    files `beside` during its upload. One that falls due during an upload is pushed at the next due
    step, or the end, if it is the newest by then."""

    def __init__(self, publish: Publish, directory: str | Path, beside: Sequence[Path]):
        branch = publish.checkpoints.branch
        self._publish, self._directory, self._beside = publish, Path(directory), beside
        self._destination = Destination(publish.model, "model", publish.private, branch)
        self._place = f"{publish.model} ({branch})"
        self._waiting: tuple[int, ExportedModel] | None = None
        self._step = 0
        self._process: subprocess.Popen | None = None

    def reap(self) -> bool:
        """Say how an upload that is over has ended; whether one is still under way."""
        if self._process is not None and self._process.poll() is not None:
            with self._process as process:
                said = process.stdout.read().strip()
            self._process = None
            if process.returncode:
                said = said or f"the pushing process ended with status {process.returncode}"
                _say(f"warning: step {self._step} is not pushed: {said}")
            else:
                _say(f"step {self._step} is in {self._place}, commit {said}")
        return self._process is not None

    def due(self, step: int) -> int:
        """The first step after `step` at which a checkpoint is pushed."""
        return next_multiple(step, self._publish.checkpoints.every)

    def act(self, step: int, engine: Engine) -> None:
        """Take the model after `step`."""
        try:
            model = engine.exported()
        except Exception as error:
            return _say(f"warning: step {step} is not pushed: {type(error).__name__}: {error}")
        if self._waiting is not None:
            _say(f"step {self._waiting[0]} is not pushed: step {step} is newer")
        self._waiting = step, model
        return self._push_next()

    def _push_next(self) -> None:
        """Begin to push what waits, unless an upload is under way."""
        if self.reap() or self._waiting is None:
            return
        (self._step, model), self._waiting = self._waiting, None
        try:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory.mkdir(parents=True)
            model.write(str(self._directory))
            for file in self._beside:
                shutil.copyfile(file, self._directory / file.name)
            asked = self._directory.resolve(), self._step, self._publish.attempts
            program = sys.executable, "-m", "mlm.publishing.uploads", *map(str, asked)
            self._process = subprocess.Popen(
                # nice, so that its imports are of the lowest priority as well.
                ["nice", "-n", "19", *program, json.dumps(asdict(self._destination))],
                # The process ends with this one, which holds the other end.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=child_environment(),
                # A Ctrl-C is for the training, which ends this process in its own time.
                process_group=0,
                text=True,
            )
        except Exception as error:
            _say(f"warning: step {self._step} is not pushed: {type(error).__name__}: {error}")

    def finish(self) -> None:
        """Wait for what is under way or waiting, at most `publish.checkpoints.wait` seconds."""
        self._push_next()
        if not self.reap():
            return
        left = self._waiting[0] if self._waiting else self._step
        wait = self._publish.checkpoints.wait
        _say(
            f"the training is done; waiting for the push of step {left} to {self._place}, at most "
            f"{wait} s"
        )
        end = time.monotonic() + wait
        while self.reap():
            try:
                self._process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                return _say(
                    f"warning: the push of step {left} was not done after {wait} s and is given "
                    "up. The training's own results are complete"
                )
            self._push_next()
        return None

    def stop(self) -> None:
        """Give up what is under way or waiting."""
        if self._process is not None:
            with self._process as process:
                process.kill()
        self._waiting = self._process = None
        shutil.rmtree(self._directory, ignore_errors=True)


def _say(words: str) -> None:
    print(f"publish.checkpoints: {words}", file=sys.stderr, flush=True)


@contextmanager
def background_pushes(
    publish: Publish | None, state: str, beside: Sequence[Path]
) -> Iterator[BackgroundPushes | None]:
    """The pushes of the training inside; None if none are asked for or there is no token. The end
    waits for the last push, unless by an error. Checkpoints are written below `state`, the
    training's own directory, or to a temporary one if it is in a bucket."""
    pushes = None
    if publish is not None:
        try:
            token_from_environment()
            place = f"{state}/pushes" if "://" not in state else tempfile.mkdtemp("-pushes")
            pushes = BackgroundPushes(publish, place, beside)
        except (MlmError, OSError) as error:
            _say(f"warning: no checkpoints are pushed: {error}")
    try:
        yield pushes
        if pushes is not None:
            pushes.finish()
    finally:
        if pushes is not None:
            pushes.stop()
