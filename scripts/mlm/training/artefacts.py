"""What `results/runs/{run}/training.json` says of a training."""

from dataclasses import dataclass, field, fields
from typing import Any, Self

from mlm.foundations.artefacts import OPTIONAL, Artefact

#: What loss and accuracy are called on a model's card.
LOSS, ACCURACY = "Masked cross-entropy, nats", "Masked accuracy"
#: Settings by name, as they were in force.
NamedSettings = dict[str, bool | int | float | str | None]


@dataclass(frozen=True)
class FinalFigures:
    """The last row of the log. `loss` and `accuracy` are None if its steps predicted nothing."""

    loss: float | None
    accuracy: float | None
    validation_loss: float
    validation_accuracy: float

    @classmethod
    def of(cls, row: Any) -> Self:
        """The figures of a `mlm.training.loop.Row`."""
        values = ((f.name, getattr(row, f.name)) for f in fields(cls))
        figures: dict[str, Any] = {n: x if x is None else round(x, 6) for n, x in values}
        return cls(**figures)


@dataclass(frozen=True)
class TrainingDigests:
    """The sha256 of the weights, and of what they were trained with and on (by split)."""

    model: str
    tokenizer: str
    manifests: dict[str, str]


@dataclass(frozen=True)
class WarmStartFigures:
    """The checkpoint that the weights began with (its directory's name, or owner/name@COMMIT), the
    names of weights that only the model has (`missing`) or only the checkpoint, and the loss in
    nats before the first step."""

    checkpoint: str
    sha256: str
    licence: str | None
    missing: list[str]
    unexpected: list[str]
    validation_loss: float


@dataclass(frozen=True)
class PhaseFigures:
    """The last step of a phase, and the rows that it trained on."""

    end: int
    sequence_length: int
    mlm_probability: float
    global_batch_size: int


@dataclass(frozen=True)
class Training(Artefact):
    """What was trained how, without anything that differs between two runs of the same.

    `predictions` counts those of all steps, `overflow` masked tokens without a slot; `code`, the
    digest of the code that trained, is added where the model is kept; `shuffle_window` is in
    samples; `deterministic` is None but on a GPU in JAX, `processes` if one trained alone.
    """

    run: str
    seed: int
    engine: str
    strategy: str
    accelerator: str
    precision: str
    replicas: int
    global_batch_size: int
    per_replica_batch_size: int
    sequence_length: int
    steps: int
    epochs: float
    steps_per_epoch: float
    tokens: int
    parameters: int
    model_type: str
    attend: str
    initialisation: NamedSettings
    head: str
    slots: int
    predictions: int
    overflow: int
    masking: NamedSettings
    optimizer: NamedSettings
    final: FinalFigures
    digests: TrainingDigests
    packages: dict[str, str]
    code: str | None = field(default=None, metadata=OPTIONAL)
    shuffle_window: int | None = field(default=None, metadata=OPTIONAL)
    deterministic: bool | None = field(default=None, metadata=OPTIONAL)
    attention: str | None = field(default=None, metadata=OPTIONAL)
    processes: int | None = field(default=None, metadata=OPTIONAL)
    warm_start: WarmStartFigures | None = field(default=None, metadata=OPTIONAL)
    phases: list[PhaseFigures] | None = field(default=None, metadata=OPTIONAL)

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row that was trained on."""
        return max((p.sequence_length for p in self.phases or ()), default=self.sequence_length)

    @property
    def without_slot(self) -> str | None:
        """The share of chosen tokens without a prediction slot, and what helps; None of none."""
        if not self.overflow:
            return None
        share = self.overflow / (self.overflow + self.predictions)
        sentence = (
            f"{share:.2%} of the chosen tokens ({self.overflow:,}) found no prediction slot and "
            "were left unmasked"
        )
        if not self.masking["whole_word"]:
            return f"{sentence}. Raise pretraining.masking.slots, or set it to null"
        return (
            f"{sentence}: some words are longer than what is left of the {self.slots} slots of a "
            "sample. If they are many, set pretraining.masking.whole_word: false"
        )
