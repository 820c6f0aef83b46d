"""The loop of every training: updates, what they measure, and what is done beside them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

from mlm.foundations.errors import MlmError
from mlm.training.processes import Peers, noted_signals

#: How training.csv shows a column; other fractions have six digits.
_FORMATS = {
    "epoch": ".4f",
    "learning_rate": ".6e",
    "tokens_per_second": ".0f",
    "initialisation_seconds": ".2f",
}


@dataclass
class Row:
    """One line of training.csv; losses in nats, means over the steps since the last row.
    `initialisation_seconds`, in the first row, were spent on counting the train split;
    `tokens_per_second` leaves out the execution that compiles."""

    step: int
    epoch: float
    loss: float
    accuracy: float
    validation_loss: float | None
    validation_accuracy: float | None
    learning_rate: float
    tokens_per_second: float | None
    initialisation_seconds: float | None = None

    def cells(self) -> list[str]:
        """The row as text."""

        def text(name: str, value: float | None) -> str:
            own = _FORMATS.get(name, ".6f" if isinstance(value, float) else "")
            return "" if value is None else format(value, own)

        return [text(*item) for item in asdict(self).items()]


@dataclass
class TrainingLog:
    """What is saved beside the variables: rows so far, and sums since the last row."""

    rows: list[Row] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=dict)
    steps_in_sums: int = 0
    overflow: float = 0.0
    initialisation_seconds: float | None = None

    def add(self, metrics: dict, steps: int) -> None:
        """Take in the summed metrics of `steps` steps."""
        for key, value in metrics.items():
            self.sums[key] = self.sums.get(key, 0.0) + float(value)
        self.steps_in_sums += steps

    def take_means(self) -> dict[str, float]:
        """Means since the last call; the sums start anew."""
        means = {k: v / self.steps_in_sums for k, v in self.sums.items()}
        self.overflow += self.sums.get("overflow", 0.0)
        self.sums, self.steps_in_sums = {}, 0
        return means

    @classmethod
    def of(cls, saved: dict) -> "TrainingLog":
        """From what `asdict` made of it."""
        return cls(**(saved | {"rows": [Row(**row) for row in saved["rows"]]}))


class Advancing(Protocol):
    """Weights at their start, or where `step` updates have put them."""

    step: int

    def advance(self, steps: int) -> dict[str, float]:
        """Make `steps` updates; the sums of their loss and of what else is measured, in float64."""


class PeriodicAction(Protocol):
    """Something done at some of the steps, which changes no weight."""

    def due(self, step: int) -> int | None:
        """The first step after `step` at which this acts, or None if it never will again."""

    def act(self, step: int, engine: Advancing) -> None:
        """Do it: `engine` has just made update number `step`."""


def next_multiple(step: int, every: int) -> int:
    """The first multiple of `every` after `step`."""
    return (step // every + 1) * every


def updates(
    engine: Advancing,
    steps: int,
    actions: Sequence[PeriodicAction],
    record: TrainingLog,
    saving: PeriodicAction,
    at_once: int = 1,
    group: Peers | None = None,
) -> Iterator[int]:
    """Advance `engine` to `steps` updates, at most `at_once` at a time, into `record`; yields their
    number, then the actions due act.

    After SIGTERM or SIGINT the update under way is finished, `saving` (one of `actions`) acts, and
    MlmError is raised, in all processes of `group` after the same update.
    """
    group = group or Peers()
    with noted_signals("saving the state before stopping") as signals:
        while engine.step < steps:
            before = engine.step
            due = [step for action in actions if (step := action.due(before)) is not None]
            step = min([before + at_once, steps, *due])
            record.add(engine.advance(step - before), step - before)
            yield step
            # Read once: a signal from here on is for the next execution.
            stopped_by = group.agreed(signals[0] if signals else None)
            for action in actions:
                if action.due(before) == step or (stopped_by and action is saving):
                    action.act(step, engine)
            if stopped_by and step < steps:
                raise MlmError(
                    f"Stopped by {stopped_by} after step {step} of {steps}. The state is saved; "
                    "the same command resumes from it"
                )
