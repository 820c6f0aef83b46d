"""A page that shows a training while it runs, written now and then by a process of low priority.

It is no result: no rule has it as an output, no job reads it, and nothing of it is in what a
training leaves behind. What fails here is told once as a warning and stops nothing.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from mlm.foundations.atomic import write_json
from mlm.foundations.child_process import child_environment
from mlm.training.engine import Engine
from mlm.training.guesses import Prompts, logits_of
from mlm.training.periodic_actions import Moment
from mlm.training.resolved_run import Pretraining
from mlm.training.training_log import Row, in_words

#: Draws the page. By its path: an edit of how a page looks is none of the training.
_DRAWING = Path(__file__).parents[2] / "jobs" / "live_page.py"
#: Seconds between two pages: at least, also where validations follow each other quickly; and at
#: most, where none is due.
_AT_LEAST, _AT_MOST = 15.0, 180.0
#: Rows without a validation that a page shows.
_ROWS = 1000


@dataclass(frozen=True)
class LiveSettings:
    """Where the page is, and what is asked meanwhile; `top_k` answers are shown of each prompt."""

    page: str
    prompts: list[str]
    top_k: int


class LivePage:
    """Takes each moment of a training and lets a page of it be drawn, not too often.

    `directory` takes what the page is drawn from. A training that ends sooner has no page.
    """

    def __init__(
        self,
        settings: LiveSettings,
        run: Pretraining,
        framework: str,
        tokenizer: str | Path,
        directory: Path,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._settings, self._run, self._framework = settings, run, framework
        self._tokenizer, self._directory, self._clock = tokenizer, directory, clock
        self._written = clock()
        self._moment: Moment | None = None
        #: Of the trainings that have a page.
        self._engine: Engine | None = None
        self._prompts: Prompts | None = None
        self._drawing: subprocess.Popen | None = None
        self._failed = False

    def __call__(self, moment: Moment, engine: Engine) -> None:
        """Show `moment`, if the last page is old enough."""
        self._moment = moment
        since = self._clock() - self._written
        busy = self._drawing is not None and self._drawing.poll() is None
        if self._failed or busy or since < (_AT_LEAST if moment.validated else _AT_MOST):
            return
        try:
            self._check_last()
            self._draw(self._snapshot(moment, engine))
            self._engine = engine
        except Exception as error:
            self._give_up(f"{type(error).__name__}: {error}")
        self._written = self._clock()

    def finish(self) -> None:
        """Say on the page that the training has ended; where there is none, none is made."""
        if self._engine is None or self._failed:
            return
        try:
            self._drawing.wait(60)
            self._draw(self._snapshot(self._moment, self._engine) | {"ended": True})
            self._drawing.wait(60)
            self._check_last()
        except Exception as error:
            self._give_up(f"{type(error).__name__}: {error}")

    def _snapshot(self, moment: Moment, engine: Engine) -> dict:
        """What the page shows, as JSON has it."""
        if self._prompts is None:
            longest = self._run.train.sequence_length
            self._prompts = Prompts(self._settings.prompts, self._tokenizer, longest)
        logits_at = logits_of(engine, self._framework, self._run)
        return {
            "run": self._run.name,
            "step": moment.step,
            "steps": self._run.steps,
            "left": None if moment.seconds_left is None else in_words(moment.seconds_left),
            "rows": [asdict(row) for row in _thinned(moment.rows)],
            "mask": self._prompts.mask_token,
            "prompts": self._prompts.guesses(logits_at, self._settings.top_k),
            "ended": False,
        }

    def _draw(self, told: dict) -> None:
        snapshot = self._directory / "live.json"
        write_json(snapshot, told)
        with open(snapshot.with_suffix(".log"), "wb") as log:
            self._drawing = subprocess.Popen(
                [sys.executable, _DRAWING, snapshot.resolve(), Path(self._settings.page).resolve()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child_environment(),
                # A Ctrl-C is for the training.
                process_group=0,
            )

    def _check_last(self) -> None:
        """Raise RuntimeError with its last line where the last drawing failed."""
        if self._drawing is not None and self._drawing.returncode:
            log = (self._directory / "live.log").read_text(errors="replace")
            raise RuntimeError(log.strip().rpartition("\n")[2] or "no reason given")

    def _give_up(self, reason: str) -> None:
        self._failed = True
        print(
            f"Warning: {self._settings.page} is not written any more ({reason}). The training "
            "goes on without it",
            file=sys.stderr,
        )


def _thinned(rows: Sequence[Row]) -> list[Row]:
    """Of many rows some at equal distances, the validations and the last."""
    every = -(-len(rows) // _ROWS)
    return [
        row
        for number, row in enumerate(rows, 1)
        if number % every == 0 or number == len(rows) or row.validation_loss is not None
    ]


@contextmanager
def live_page(
    settings: LiveSettings | None,
    run: Pretraining,
    framework: str,
    tokenizer: str | Path,
    state: str,
) -> Iterator[LivePage | None]:
    """The page of the training inside; None where none is asked for.

    `state` is the directory of the run's states, which may be in a bucket.
    """
    if settings is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary if "://" in state else state)
        page = LivePage(settings, run, framework, tokenizer, directory)
        yield page
        page.finish()
