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
        """Return the figures of a `mlm.training.loop.Row`."""
        values: list[Any] = [getattr(row, f.name) for f in fields(cls)]
        rounded: list[Any] = [x if x is None else round(x, 6) for x in values]
        return cls(*rounded)


@dataclass(frozen=True)
class TrainingDigests:
    """The sha256 of the weights, and of what they were trained with and on (by split)."""

    model: str
    tokenizer: str
    manifests: dict[str, str]


@dataclass(frozen=True)
class WarmStartFigures:
    """The checkpoint that the weights began with (its directory's name, or owner/name@COMMIT),
    weights that only the model (`missing`) or only the checkpoint has, and the loss before step 1.
    """

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
    samples; `arithmetic` is what else decides how the devices round.
    """

    run: str
    seed: int
    engine: str
    accelerator: str
    precision: str
    replicas: int
    global_batch_size: int
    per_replica_batch_size: int
    sequence_length: int
    steps: int
    epochs: float
    tokens: int
    parameters: int
    model_type: str
    initialisation: NamedSettings
    predictions: int
    overflow: int
    masking: NamedSettings
    optimizer: NamedSettings
    final: FinalFigures
    digests: TrainingDigests
    packages: dict[str, str]
    code: str | None = field(default=None, metadata=OPTIONAL)
    shuffle_window: int | None = field(default=None, metadata=OPTIONAL)
    arithmetic: NamedSettings = field(default_factory=dict, metadata=OPTIONAL)
    warm_start: WarmStartFigures | None = field(default=None, metadata=OPTIONAL)
    phases: list[PhaseFigures] | None = field(default=None, metadata=OPTIONAL)

    @property
    def parts(self) -> list[PhaseFigures]:
        """The phases; the whole training if it had none."""
        share = float(self.masking["mlm_probability"] or 0)
        whole = PhaseFigures(self.steps, self.sequence_length, share, self.global_batch_size)
        return self.phases or [whole]

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row that was trained on."""
        return max(p.sequence_length for p in self.parts)

    @property
    def without_slot(self) -> str | None:
        """The share of chosen tokens without a prediction slot, and what helps; None of none."""
        if not self.overflow:
            return None
        share, advice = self.overflow / (self.overflow + self.predictions), "masking.slots: null"
        if self.masking["whole_word"]:
            advice = "masking.whole_word: false, as some words have more pieces than slots are left"
        return (
            f"{share:.2%} of the chosen tokens ({self.overflow:,}) found no prediction slot and "
            f"were left unmasked. If they are many, set pretraining.{advice}"
        )
