"""The names of the report's figures and baselines; `report/glossary.yaml` has what terms mean."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlm.evaluation.artefacts import BASELINES, Baseline, BaselineName


@dataclass(frozen=True)
class FigureName:
    """A figure's chapter, heading, and the entry of the glossary for what it shows."""

    chapter: str
    heading: str
    term: str


FIGURES = {
    "piece_lengths": FigureName("Tokenizer", "Length of the vocabulary's pieces", "tokens"),
    "training_loss": FigureName("Training", "Loss during training", "visible"),
    "training_accuracy": FigureName("Training", "Accuracy during training", "visible"),
    "learning_rate": FigureName("Training", "Learning rate", "learning_rate"),
    "loss_by_setting": FigureName("Training", "Validation loss by setting", "validation"),
    "test_loss": FigureName("Evaluation", "Test loss against the baselines", "loss"),
    "test_accuracy": FigureName("Evaluation", "Test accuracy against the baselines", "accuracy"),
    "frequency_bands": FigureName("Evaluation", "Accuracy by frequency of the token", "accuracy"),
    "positions": FigureName("Evaluation", "Loss by position in the sample", "position"),
    "calibration": FigureName("Evaluation", "Calibration", "calibration"),
    "context": FigureName("Evaluation", "Loss by visible context", "context"),
}

#: Figures of a stage that runs only when asked.
FINETUNING_FIGURES = {
    "finetuning_curves": FigureName("Fine-tuning", "Fine-tuning by epoch", "score"),
    "finetuning_predictions": FigureName(
        "Fine-tuning", "Fine-tuned: predicted against true", "score"
    ),
}


def named_baselines(found: Mapping[str, Baseline]) -> list[tuple[BaselineName, Baseline]]:
    """Each baseline of an evaluation with its name, in the order of BASELINES."""
    return [(BASELINES[key], found[key]) for key in sorted(found, key=list(BASELINES).index)]
