"""The figures of the report by name, with the chapter and the heading that each stands under."""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

FIGURES = {
    "piece_lengths": ("Tokenizer", "Length of the vocabulary's pieces"),
    "training_loss": ("Training", "Loss during training"),
    "training_accuracy": ("Training", "Masked accuracy during training"),
    "learning_rate": ("Training", "Learning rate"),
    "test_loss": ("Evaluation", "Test loss beside the baselines"),
    "test_accuracy": ("Evaluation", "Test accuracy beside the baselines"),
    "frequency_bands": ("Evaluation", "Accuracy by frequency of the token"),
    "positions": ("Evaluation", "Loss by position in the sample"),
    "calibration": ("Evaluation", "Calibration"),
}

#: Figures of a stage that runs only when asked.
FINETUNING_FIGURES = {
    "finetuning_curves": ("Fine-tuning", "Fine-tuning by epoch"),
    "finetuning_predictions": ("Fine-tuning", "Fine-tuned: predicted against true"),
}

#: Baselines in the order of what they know. Others come after them, by their own key.
BASELINES = {
    "unigram": "unigram baseline",
    "bigram_hidden": "bigram baseline, same view",
    "bigram": "bigram baseline, all neighbours",
    "trigram_hidden": "trigram baseline, same view",
    "trigram": "trigram baseline, all neighbours",
}


def ordered_baselines(found: Mapping[str, T]) -> list[tuple[str, str, T]]:
    """Key, name and figures of each baseline of an evaluation, in a fixed order."""
    keys = [k for k in BASELINES if k in found] + sorted(found.keys() - BASELINES.keys())
    return [(k, BASELINES.get(k, f"{k.replace('_', ' ')} baseline"), found[k]) for k in keys]
