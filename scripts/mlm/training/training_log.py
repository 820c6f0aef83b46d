"""What a training measures: the rows of training.csv, and the sums since the last one."""

from dataclasses import asdict, dataclass, field

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

    `initialisation_seconds`, in the first row, were spent on counting the train split.
    `tokens_per_second` leaves out the execution that compiles, and is None if there was no other.
    """

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
    """What is saved beside the variables: rows so far, and sums since the last row."""

    rows: list[Row] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=dict)
    steps_in_sums: int = 0
    overflow: float = 0.0
    initialisation_seconds: float | None = None

    def add(self, metrics: dict, steps: int) -> None:
        """Take in the summed metrics of `steps` steps."""
        for key, value in metrics.items():
            self.sums[key] = self.sums.get(key, 0.0) + float(value)
        self.steps_in_sums += steps

    def means(self) -> dict[str, float]:
        """Means since the last call; the sums start anew."""
        means = {k: v / self.steps_in_sums for k, v in self.sums.items()}
        self.overflow += self.sums.get("overflow", 0.0)
        self.sums, self.steps_in_sums = {}, 0
        return means

    @classmethod
    def of(cls, saved: dict) -> "TrainingLog":
        """From what `asdict` made of it."""
        return cls(**(saved | {"rows": [Row(**row) for row in saved["rows"]]}))
