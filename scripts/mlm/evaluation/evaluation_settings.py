"""Section `evaluation` of the configuration, as the evaluation uses it."""

from dataclasses import dataclass, fields

from mlm.evaluation.artefacts import Resamples, ShownSettings


@dataclass(frozen=True)
class EvaluationSettings(ShownSettings):
    """Section `evaluation` of the configuration, what of `accelerator` it needs, and what
    attention stays within, "sample" or "document", as in the training."""

    batch_size: int
    minimal_pairs: list[list[str]]
    accelerator: dict
    attend: str

    @classmethod
    def of(cls, section: dict, accelerator: dict, attend: str = "sample") -> "EvaluationSettings":
        """From the resolved sections; keys that evaluation does not use are left aside."""
        names = {f.name for f in fields(cls)} - {"accelerator", "attend", "bootstrap"}
        return cls(
            **{n: section[n] for n in names},
            bootstrap=Resamples(**section["bootstrap"]),
            accelerator=dict(accelerator),
            attend=attend,
        )

    def shown(self) -> ShownSettings:
        """What the figures depend on, for the file: not how they were computed."""
        return ShownSettings(**{f.name: getattr(self, f.name) for f in fields(ShownSettings)})
