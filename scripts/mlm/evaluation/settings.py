"""Section `evaluation` of the configuration, as the evaluation uses it."""

from dataclasses import asdict, dataclass, fields

from mlm.errors import ConfigError


@dataclass(frozen=True)
class EvaluationSettings:
    """Section `evaluation` of the configuration, and what of `accelerator` it needs."""

    batch_size: int
    mask_share: float
    mask_token: float
    random_token: float
    seed: int
    bootstrap: dict
    frequency_bands: list[int]
    calibration_bins: int
    samples: int
    train_samples: int
    minimal_pairs: list[list[str]]
    accelerator: dict

    @classmethod
    def of(cls, section: dict, accelerator: dict) -> "EvaluationSettings":
        """From the resolved sections; keys that evaluation does not use are left aside.

        Raises ConfigError for shares that contradict each other.
        """
        if problems := evaluation_problems(section):
            raise ConfigError(problems)
        names = {f.name for f in fields(cls)} - {"accelerator"}
        return cls(**{n: section[n] for n in names}, accelerator=dict(accelerator))

    def shown(self) -> dict:
        """What the figures depend on, for the file: not how they were computed."""
        left_out = ("accelerator", "batch_size", "minimal_pairs")
        return {k: v for k, v in asdict(self).items() if k not in left_out}


def evaluation_problems(section: dict) -> list[str]:
    """What no single key of the section shows, one line each."""
    replaced = section["mask_token"] + section["random_token"]
    if replaced > 1 + 1e-9:
        return [f"evaluation: mask_token and random_token add up to {replaced:g}, more than 1"]
    if replaced <= 0:
        return [
            "evaluation: mask_token and random_token are both 0, so that the model would be shown "
            "every token that it is to predict; at least one must be more"
        ]
    return []
