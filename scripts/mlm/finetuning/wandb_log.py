"""Weights & Biases, for those who use it: a training's epochs as a run there. Never required."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mlm.finetuning.tables import EpochRow
from mlm.foundations.errors import MlmError


@dataclass(frozen=True)
class WandbSettings:
    """`mode` is disabled, offline (files only, for `wandb sync` later) or online."""

    mode: str
    project: str
    directory: str


def log_epochs(
    settings: WandbSettings, group: str, name: str, config: dict, rows: Sequence[EpochRow]
) -> None:
    """Log the rows as the run `name` of `group`; does nothing where the mode is disabled.

    A key is taken from the environment (WANDB_API_KEY), never from the configuration. Raises
    MlmError where the package is missing, or no key is there for the mode online.
    """
    if settings.mode == "disabled":
        return
    try:
        import wandb
    except ImportError:
        raise MlmError(
            f"finetune.wandb.mode: {settings.mode}, but the package wandb is not installed "
            "here. Install it beside the others (pip install wandb), or set disabled"
        ) from None
    if settings.mode == "online" and not os.environ.get("WANDB_API_KEY"):
        raise MlmError(
            "finetune.wandb.mode: online, but WANDB_API_KEY is not in the environment. Set it, "
            "or log offline and send it later with `wandb sync`"
        )
    Path(settings.directory).mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        mode=settings.mode,
        project=settings.project,
        group=group,
        name=name,
        config=config,
        dir=settings.directory,
        settings=wandb.Settings(silent=True, disable_git=True, save_code=False),
    )
    for row in rows:
        figures = {k: v for k, v in asdict(row).items() if k not in ("fold", "seed", "epoch")}
        run.log(figures, step=row.epoch)
    run.finish()
