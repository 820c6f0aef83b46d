"""A training that diverged is stopped: at the first loss, or the first saved weight, that is not
finite."""

import math

from mlm.foundations.errors import MlmError
from mlm.training.engine import Engine
from mlm.training.learning_rate import rate_of_step
from mlm.training.run import Run
from mlm.training.states import StateDirectory


def check_loss(loss: float, run: Run, step: int, states: StateDirectory) -> None:
    """Raise MlmError if the `loss` of the updates up to `step` is not finite."""
    if not math.isfinite(loss):
        raise _not_finite("The loss is", run, step, states)


def check_weights(engine: Engine, run: Run, step: int, states: StateDirectory) -> None:
    """Raise MlmError if a weight is not finite after update number `step`."""
    if not engine.weights_are_finite():
        raise _not_finite("Some weights are", run, step, states)


def _not_finite(what: str, run: Run, step: int, states: StateDirectory) -> MlmError:
    saved, rate = states.steps(), rate_of_step(run.pretraining.optimizer, step)
    kept = f"The state after step {saved[0]} is kept" if saved else "No state was saved yet"
    return MlmError(
        f"{what} not finite at step {step} (learning rate {rate:.3g}). {kept} in {states.path}. "
        "Try a lower pretraining.optimizer.learning_rate, a longer warmup_ratio, max_grad_norm: "
        "1.0, or accelerator.precision: float32"
    )
