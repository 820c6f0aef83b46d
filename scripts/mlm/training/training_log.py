"""The log of a training: the rows of training.csv, and the sums that its next row is a mean of."""

from dataclasses import asdict, dataclass, field

from mlm.training.loop import Sums

#: How training.csv shows a column; other fractions have six digits.
_FORMATS = {
    "epoch": ".4f",
    "learning_rate": ".6e",
    "tokens_per_second": ".0f",
    "initialisation_seconds": ".2f",
}


@dataclass
class Row:
    """One line of training.csv; losses in nats, means over the steps since the last row.
    `initialisation_seconds`, in the first row, were spent on counting the train split;
    `tokens_per_second` leaves out the execution that compiles."""

    step: int
    epoch: float
    loss: float
    accuracy: float
    validation_loss: float | None
    validation_accuracy: float | None
    learning_rate: float
    tokens_per_second: float | None
    initialisation_seconds: float | None = None

    def cells(self) -> list[str]:
        """The row as text."""

        def text(name: str, value: float | None) -> str:
            own = _FORMATS.get(name, ".6f" if isinstance(value, float) else "")
            return "" if value is None else format(value, own)

        return [text(*item) for item in asdict(self).items()]


@dataclass
class TrainingLog:
    """What is saved beside the variables: rows so far, and sums since the last row; `first_loss` is
    that of validation before the first step of a warm start."""

    rows: list[Row] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    overflow: float = 0.0
    initialisation_seconds: float | None = None
    first_loss: float | None = None

    def take_means(self) -> dict[str, float]:
        """Means since the last call; the sums start anew."""
        sums, steps = self.sums.taken()
        self.overflow += sums.get("overflow", 0.0)
        return {k: v / steps for k, v in sums.items()}

    @classmethod
    def of(cls, saved: dict) -> "TrainingLog":
        """From what `asdict` made of it."""
        rows, sums = [Row(**row) for row in saved["rows"]], Sums(**saved["sums"])
        return cls(**(saved | {"rows": rows, "sums": sums}))
