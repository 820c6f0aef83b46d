"""The names of the report's figures and baselines; `report/glossary.yaml` has what terms mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

Figures = TypeVar("Figures")


@dataclass(frozen=True)
class FigureName:
    """A figure's chapter, heading, and the entry of the glossary for what it shows."""

    chapter: str
    heading: str
    term: str


FIGURES = {
    "piece_lengths": FigureName("Tokenizer", "Length of the vocabulary's pieces", "tokens"),
    "training_loss": FigureName("Training", "Loss during training", "loss"),
    "training_accuracy": FigureName("Training", "Masked accuracy during training", "accuracy"),
    "learning_rate": FigureName("Training", "Learning rate", "learning_rate"),
    "test_loss": FigureName("Evaluation", "Test loss beside the baselines", "loss"),
    "test_accuracy": FigureName("Evaluation", "Test accuracy beside the baselines", "accuracy"),
    "frequency_bands": FigureName("Evaluation", "Accuracy by frequency of the token", "accuracy"),
    "positions": FigureName("Evaluation", "Loss by position in the sample", "position"),
    "calibration": FigureName("Evaluation", "Calibration", "calibration"),
}

#: Figures of a stage that runs only when asked.
FINETUNING_FIGURES = {
    "finetuning_curves": FigureName("Fine-tuning", "Fine-tuning by epoch", "score"),
    "finetuning_predictions": FigureName(
        "Fine-tuning", "Fine-tuned: predicted against true", "score"
    ),
}

#: Baselines in the order of what they know. Others come after them, by their own key.
BASELINES = {
    "unigram": "unigram baseline",
    "bigram_hidden": "bigram baseline, same view",
    "bigram": "bigram baseline, all neighbours",
    "trigram_hidden": "trigram baseline, same view",
    "trigram": "trigram baseline, all neighbours",
}


def ordered_baselines(found: Mapping[str, Figures]) -> list[tuple[str, str, Figures]]:
    """Key, name and figures of each baseline of an evaluation, in a fixed order."""
    keys = [k for k in BASELINES if k in found] + sorted(found.keys() - BASELINES.keys())
    return [(k, BASELINES.get(k, f"{k.replace('_', ' ')} baseline"), found[k]) for k in keys]
