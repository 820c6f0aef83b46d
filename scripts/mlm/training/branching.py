"""A training that continues from a state of another one: `pretraining.continue_from`.

Up to that step both are the same training, bit for bit: they may differ in how the rate falls
later.
"""

from dataclasses import dataclass

import numpy as np

from mlm.foundations.digests import differences
from mlm.foundations.errors import MlmError
from mlm.training.learning_rate import learning_rate
from mlm.training.run import Run
from mlm.training.states import StateDirectory

#: What may differ between a branch and its parent, below `settings`. The learning rate before the
#: branch is compared step by step.
_OWN_OF_OPTIMIZER = ("schedule_steps", "warmup_steps", "decay", "decay_steps", "min_lr_ratio")


@dataclass(frozen=True)
class Branch:
    """Where a training begins: the state of `run` after `step` updates."""

    run: str
    step: int
    states: StateDirectory

    def state(self) -> tuple[str, int, dict]:
        """Place, step and progress of the state; MlmError if it was not kept."""
        if (found := self.states.newest_whole(only=self.step)) is None:
            kept = ", ".join(map(str, sorted(self.states.steps()))) or "none"
            raise MlmError(
                f"pretraining.continue_from: {self.states.path} holds no whole state after step "
                f"{self.step} of run {self.run!r} (states there: {kept}). Continue from one that "
                "is there; or set run and step to null, and the training begins at its first step "
                "and ends with the same weights. checkpoint.keep_steps keeps a step in future, and "
                "checkpoint.keep: null keeps all of them"
            )
        return found


def branch_of(run: Run, parent: Run, states: StateDirectory, step: int) -> Branch:
    """The start of `run` in the `states` of `parent`, after `step` updates. Raises MlmError unless
    both are the same training up to there."""
    if found := differences(_shared(parent), _shared(run)) or _other_rates(run, parent, step):
        raise MlmError(
            f"pretraining.continue_from: run {run.name!r} cannot continue run {parent.name!r} from "
            f"step {step}: up to there they are not the same training. {'; '.join(found)}"
        )
    return Branch(parent.name, step, states)


def _shared(run: Run) -> dict:
    """The settings of `run` that it must share with a branch of it."""
    basis = {k: v for k, v in run.basis().items() if k != "steps"}
    optimizer = {k: v for k, v in basis["optimizer"].items() if k not in _OWN_OF_OPTIMIZER}
    return basis | {"optimizer": optimizer}


def _other_rates(run: Run, parent: Run, step: int) -> list[str]:
    """In which of the first `step` updates the learning rates differ first, in words."""
    steps = np.arange(step, dtype=np.float32)
    then, now = (learning_rate(r.pretraining.optimizer, steps, np) for r in (parent, run))
    return [
        f"learning rate of step {first + 1}: {then[first]:.4g} then, {now[first]:.4g} now (set "
        f"warmup_steps, and let the rate fall after step {step} only)"
        for first in (then != now).nonzero()[0][:1]
    ]
