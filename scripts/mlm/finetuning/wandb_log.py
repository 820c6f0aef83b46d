"""Weights & Biases, for those who use it: each training's epochs as a run there. Never required."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mlm.config.finetune import Wandb
from mlm.finetuning.tables import EpochRow
from mlm.foundations.errors import MlmError


def log_epochs(
    section: Wandb, run: str, name: str, config: dict, rows: Sequence[EpochRow], directory: str
) -> None:
    """Log the rows of a fold as the runs `name`-seed-0 and so on of the group `run`; does nothing
    if the mode is disabled.

    The key comes from the environment (WANDB_API_KEY), never from the configuration. Raises
    MlmError if the package is missing, or the mode is online and there is no key.
    """
    if section.mode == "disabled":
        return
    try:
        import wandb
    except ImportError:
        raise MlmError(
            f"finetune.wandb.mode: {section.mode}, but the package wandb is not installed "
            "here. Install it beside the others (pip install wandb), or set disabled"
        ) from None
    if section.mode == "online" and not os.environ.get("WANDB_API_KEY"):
        raise MlmError(
            "finetune.wandb.mode: online, but WANDB_API_KEY is not in the environment. Set it, "
            "or log offline and send it later with `wandb sync`"
        )
    Path(directory).mkdir(parents=True, exist_ok=True)
    for seed in sorted({row.seed for row in rows}):
        training = wandb.init(
            mode=section.mode,
            project=section.project,
            group=run,
            name=f"{name}-seed-{seed}",
            config=config | {"training": seed},
            dir=directory,
            settings=wandb.Settings(silent=True, disable_git=True, save_code=False),
        )
        for row in rows:
            if row.seed == seed:
                figures = {k: v for k, v in asdict(row).items() if type(v) is float}
                training.log(figures, step=row.epoch)
        training.finish()
