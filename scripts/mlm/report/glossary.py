"""The names of the report's figures; `report/glossary.yaml` has what terms mean."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FigureName:
    """A figure's chapter, heading, and the entry of the glossary for what it shows."""

    chapter: str
    heading: str
    term: str


FIGURES = {
    "training_loss": FigureName("Training", "Loss during training", "visible"),
    "training_accuracy": FigureName("Training", "Accuracy during training", "visible"),
    "test_loss": FigureName("Evaluation", "Test loss against the baselines", "loss"),
    "test_accuracy": FigureName("Evaluation", "Test accuracy against the baselines", "accuracy"),
    "frequency_bands": FigureName("Evaluation", "Accuracy by frequency of the token", "accuracy"),
}
