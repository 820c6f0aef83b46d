"""Where the curves of a training go while it runs: steps in order, of which some may come again
after a resume."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

from mlm.foundations.errors import MlmError
from mlm.training.run import Run


class TensorBoard:
    """Events below `directory`."""

    def __init__(self, directory: str):
        from tensorboard.summary import Writer

        self._events = Writer(directory)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._events.add_scalar(name, value, step)
        self._events.flush()

    def close(self) -> None:
        self._events.close()


class WeightsAndBiases:
    """A run of Weights & Biases, whose own variables name project, key and mode. The state at
    `states` names it, so that a resumed training continues its run there."""

    def __init__(self, run: Run, states: str):
        try:
            import wandb
        except ImportError:
            raise MlmError(
                "pretraining.log_to: wandb is not installed in this environment. Install it "
                "(python -m pip install wandb), or leave wandb out of pretraining.log_to"
            ) from None
        try:
            self._run = wandb.init(
                id=states.rstrip("/").rsplit("/", 1)[-1][:64],
                name=run.name,
                resume="allow",
                config=run.pretraining.optimizer.model_dump() | run.step_sizes(),
                settings=wandb.Settings(silent=True, disable_git=True, save_code=False),
            )
        except wandb.errors.Error as error:
            raise MlmError(
                f"pretraining.log_to: Weights & Biases cannot be used: {error}. Set WANDB_API_KEY, "
                "or WANDB_MODE=offline to write to wandb/ alone"
            ) from error

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


CurveWriter = TensorBoard | WeightsAndBiases


@contextmanager
def curve_writers(run: Run, states: str) -> Iterator[list[CurveWriter]]:
    """Those that `pretraining.log_to` of the run names, closed at the end; `states` is where its
    states are. Raises MlmError if one cannot be used."""
    opened = {
        "tensorboard": lambda: TensorBoard(f"{states}/tensorboard"),
        "wandb": lambda: WeightsAndBiases(run, states),
    }
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(opened[name]()))
            for name in dict.fromkeys(run.pretraining.log_to)
        ]
