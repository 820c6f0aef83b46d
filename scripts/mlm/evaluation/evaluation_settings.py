"""Section `evaluation` of the configuration, as the evaluation uses it."""

from dataclasses import dataclass, fields

from mlm.evaluation.artefacts import Resamples, ShownSettings


@dataclass(frozen=True)
class EvaluationSettings(ShownSettings):
    """Section `evaluation` of the configuration, and what of `accelerator` it needs."""

    batch_size: int
    minimal_pairs: list[list[str]]
    accelerator: dict

    @classmethod
    def of(cls, section: dict, accelerator: dict) -> "EvaluationSettings":
        """From the resolved sections; keys that evaluation does not use are left aside."""
        names = {f.name for f in fields(cls)} - {"accelerator", "bootstrap"}
        return cls(
            **{n: section[n] for n in names},
            bootstrap=Resamples(**section["bootstrap"]),
            accelerator=dict(accelerator),
        )

    def shown(self) -> ShownSettings:
        """What the figures depend on, for the file: not how they were computed."""
        return ShownSettings(**{f.name: getattr(self, f.name) for f in fields(ShownSettings)})
