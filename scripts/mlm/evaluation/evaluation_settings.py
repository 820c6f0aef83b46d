"""Section `evaluation` of the configuration, as the evaluation uses it."""

from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class EvaluationSettings:
    """Section `evaluation` of the configuration, and what of `accelerator` it needs."""

    batch_size: int
    mlm_probability: float
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
        """From the resolved sections; keys that evaluation does not use are left aside."""
        names = {f.name for f in fields(cls)} - {"accelerator"}
        return cls(**{n: section[n] for n in names}, accelerator=dict(accelerator))

    def shown(self) -> dict:
        """What the figures depend on, for the file: not how they were computed."""
        left_out = ("accelerator", "batch_size", "minimal_pairs")
        return {k: v for k, v in asdict(self).items() if k not in left_out}
