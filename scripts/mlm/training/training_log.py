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
    """One line of training.csv; losses in nats. `loss` and `accuracy` are means over the
    predictions of the steps since the last row, None without any. `initialisation_seconds`, in the
    first row, were spent on counting the train split; `tokens_per_second` leaves out the execution
    that compiles."""

    step: int
    epoch: float
    loss: float | None
    accuracy: float | None
    validation_loss: float | None
    validation_accuracy: float | None
    learning_rate: float
    tokens_per_second: float | None
    initialisation_seconds: float | None = None

    def cells(self) -> list[str]:
        """The row as text."""
        return [
            "" if x is None else format(x, _FORMATS.get(n, ".6f" if isinstance(x, float) else ""))
            for n, x in asdict(self).items()
        ]


@dataclass
class TrainingLog:
    """What is saved beside the variables: rows so far, and sums since the last row; `first_loss` is
    that of validation before the first step of a warm start."""

    rows: list[Row] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    overflow: float = 0.0
    predictions: float = 0.0
    initialisation_seconds: float | None = None
    first_loss: float | None = None

    def take_means(self) -> tuple[float | None, float | None]:
        """Mean loss and accuracy since the last call, None if not measured; the sums start anew."""
        sums = self.sums.taken()
        self.overflow += sums["overflow"]
        self.predictions += sums["predictions"]
        if not sums["predictions"]:
            return None, None
        accuracy = sums["accuracy"] / sums["predictions"] if "accuracy" in sums else None
        return sums["loss"] / sums["predictions"], accuracy

    @classmethod
    def of(cls, saved: dict) -> "TrainingLog":
        """From what `asdict` made of it."""
        rows, sums = [Row(**row) for row in saved["rows"]], Sums(**saved["sums"])
        return cls(**(saved | {"rows": rows, "sums": sums}))
