"""The loop of every training: updates, what they measure, and what is done beside them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mlm.config.pretraining import Optimizer
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import noted_signals
from mlm.training.processes import Peers


@dataclass(frozen=True)
class Schedule:
    """The updates of a training, the data that they go through, and the steps at which it is logged
    and validated. `section` is that of the configuration that sets them."""

    name: str
    steps: int
    batch_size: int
    num_samples: int
    sequence_length: int
    optimizer: Optimizer
    log_every: int
    validate_every: int
    section: str = "pretraining.optimizer"

    def epoch(self, step: int) -> float:
        """Passes over the data after `step` updates."""
        return step * self.batch_size / self.num_samples

    def tokens(self, step: int) -> int:
        """Places for tokens in the rows of `step` updates."""
        return step * self.batch_size * self.sequence_length


@dataclass
class Sums:
    """Sums of what steps measured, by name."""

    by_name: dict[str, float] = field(default_factory=dict)

    def add(self, metrics: dict) -> None:
        """Take in the summed metrics of some steps."""
        for key, value in metrics.items():
            self.by_name[key] = self.by_name.get(key, 0.0) + float(value)

    def taken(self) -> dict[str, float]:
        """The sums, which start anew."""
        sums, self.by_name = self.by_name, {}
        return sums


class Advancing(Protocol):
    """Weights at their start, or where `step` updates have put them."""

    step: int

    def advance(self, steps: int) -> dict[str, float]:
        """Make `steps` updates; the sums of their loss and of what else is measured, in float64."""
        ...


class PeriodicAction(Protocol):
    """Something done at some of the steps, which changes no weight."""

    def due(self, step: int) -> int | None:
        """The first step after `step` at which this acts, or None if it never will again."""

    def act(self, step: int, engine: Any) -> None:
        """Do it: `engine` has just made update number `step`."""


def next_multiple(step: int, every: int) -> int:
    """The first multiple of `every` after `step`."""
    return (step // every + 1) * every


def updates(
    engine: Advancing,
    steps: int,
    actions: Sequence[PeriodicAction],
    sums: Sums,
    saving: PeriodicAction,
    at_once: int = 1,
    group: Peers | None = None,
) -> Iterator[int]:
    """Advance `engine` to `steps` updates, at most `at_once` at a time, into `sums`; yields their
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
            sums.add(engine.advance(step - before))
            yield step
            # Read once: a signal from here on is for the next execution.
            stopped_by = group.any_stop_signal(signals[0] if signals else None)
            for action in actions:
                if action.due(before) == step or (stopped_by and action is saving):
                    action.act(step, engine)
            if stopped_by and step < steps:
                group.leave()  # A process that ended while another saves would end that one too.
                raise MlmError(
                    f"Stopped by {stopped_by} after step {step} of {steps}. The state is saved; "
                    "the same command resumes from it"
                )
