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
    "calibration": FigureName("Evaluation", "Calibration", "calibration"),
}

#: Figures of a stage that runs only when asked.
FINETUNING_FIGURES = {
    "finetuning_predictions": FigureName(
        "Fine-tuning", "Fine-tuned: predicted against true", "score"
    )
}
