"""Checkpoints pushed to the Hub while the training continues.

At a step where one is due, the weights are copied to the host and the training continues. A thread
writes them to a directory, and a process of the lowest priority uploads it (`uploads.main`). While
one push is under way, the newest checkpoint waits and older ones are skipped. Nothing here stops or
changes a training: what fails is a warning.
"""

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlm.config.publish import Publish
from mlm.foundations.environment import child_environment
from mlm.foundations.errors import MlmError
from mlm.model.export import ExportedModel
from mlm.publishing.artefacts import Destination
from mlm.publishing.secrecy import token_from_environment
from mlm.publishing.uploads import request_of
from mlm.training.engine import Engine
from mlm.training.loop import next_multiple


class BackgroundPushes:
    """The pushes of one training, a periodic action of it; `act` never waits.

    `publish.model` names the repository; `directory` holds a checkpoint during its upload, and
    `beside` are files that go with each of them.
    """

    def __init__(self, publish: Publish, directory: str | Path, beside: Sequence[Path]):
        branch = publish.checkpoints.branch
        self._publish, self._directory, self._beside = publish, Path(directory), beside
        self._destination = Destination(publish.model, "model", publish.private, branch)
        self._place = f"{publish.model} ({branch})"
        self._lock = threading.Lock()
        self._waiting: tuple[int, ExportedModel] | None = None
        self._under_way: int | None = None
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen | None = None
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is under way or waits."""
        return self._under_way is not None

    def due(self, step: int) -> int:
        """The first step after `step` at which a checkpoint is pushed."""
        return next_multiple(step, self._publish.checkpoints.every)

    def act(self, step: int, engine: Engine) -> None:
        """Take the model after `step`."""
        try:
            model = engine.exported()
        except Exception as error:
            return _say(f"warning: step {step} is not pushed: {type(error).__name__}: {error}")
        with self._lock:
            if self._waiting is not None:
                _say(f"step {self._waiting[0]} is not pushed: step {step} is newer")
            self._waiting = step, model
            if self._under_way is None:
                self._under_way = step
                self._thread = threading.Thread(target=self._push_all, daemon=True)
                self._thread.start()
        return None

    def finish(self) -> None:
        """Wait for what is under way or waiting, at most `publish.checkpoints.wait` seconds."""
        with self._lock:
            left = self._waiting[0] if self._waiting else self._under_way
        if left is None:
            return
        wait = self._publish.checkpoints.wait
        _say(
            f"the training is done; waiting for the push of step {left} to {self._place}, at most "
            f"{wait} s"
        )
        self._thread.join(wait)
        if self._thread.is_alive():
            _say(
                f"warning: the push of step {left} was not done after {wait} s and is given up. "
                "The training's own results are complete"
            )

    def stop(self) -> None:
        """Give up what is under way or waiting."""
        with self._lock:
            self._stopped, self._waiting = True, None
            if self._process is not None:
                self._process.kill()
        if self._thread is not None:
            self._thread.join()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _push_all(self) -> None:
        """The thread: push the newest checkpoint, until none waits."""
        while True:
            with self._lock:
                if self._waiting is None:
                    self._under_way = None
                    return
                (step, model), self._waiting = self._waiting, None
                self._under_way = step
            try:
                _say(f"step {step} is in {self._place}, commit {self._push(step, model)}")
            except Exception as error:
                if not self._stopped:
                    kind = "" if isinstance(error, MlmError) else f"{type(error).__name__}: "
                    _say(f"warning: step {step} is not pushed: {kind}{error}")

    def _push(self, step: int, model: ExportedModel) -> str:
        """The commit. Raises MlmError with the words of the pushing process."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        model.write(str(self._directory))
        for file in self._beside:
            shutil.copyfile(file, self._directory / file.name)
        request = request_of(self._directory, step, self._destination, self._publish.attempts)
        with self._lock:
            if self._stopped:
                raise MlmError("the training has ended")
            self._process = subprocess.Popen(
                # nice, so that its imports are of the lowest priority as well.
                ["nice", "-n", "19", sys.executable, "-m", "mlm.publishing.uploads", request],
                # The process ends with this one, which holds the other end.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=child_environment(),
                # A Ctrl-C is for the training, which ends this process in its own time.
                process_group=0,
                text=True,
            )
        with self._process as process:
            said = process.stdout.read().strip()
            process.wait()
        if process.returncode:
            raise MlmError(said or f"the pushing process ended with status {process.returncode}")
        return said


def _say(words: str) -> None:
    print(f"publish.checkpoints: {words}", file=sys.stderr, flush=True)


@contextmanager
def background_pushes(
    publish: Publish | None, state: str, beside: Sequence[Path]
) -> Iterator[BackgroundPushes | None]:
    """The pushes of the training inside; None if none are asked for or there is no token.

    The end waits for the last push, unless by an error. Checkpoints are written below `state`, the
    training's own directory, or to a temporary one if it is in a bucket.
    """
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
