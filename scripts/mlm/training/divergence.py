"""A training that diverged is stopped: at the first loss, or the first saved weight, that is not
finite."""

from mlm.foundations.errors import MlmError
from mlm.training.learning_rate import rate_of_step
from mlm.training.run import Run
from mlm.training.states import StateDirectory


def check_finite(finite: bool, what: str, run: Run, step: int, states: StateDirectory) -> None:
    """Raise MlmError, which begins with `what`, after update number `step`, unless `finite`."""
    if finite:
        return
    saved, rate = states.steps(), rate_of_step(run.pretraining.optimizer, step)
    kept = f"The state after step {saved[0]} is kept" if saved else "No state was saved yet"
    raise MlmError(
        f"{what} not finite at step {step} (learning rate {rate:.3g}). {kept} in {states.path}. "
        "Try a lower pretraining.optimizer.learning_rate, a longer warmup_ratio, max_grad_norm: "
        "1.0, or accelerator.precision: float32"
    )
