"""Section `finetune`: a labelled task that each run's model is trained on further."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mlm.config.families import FAMILIES, JAX_FAMILIES
from mlm.config.fields import (
    BelowOne,
    Confidence,
    Count,
    NotNegative,
    Positive,
    Resamples,
    Section,
    Seed,
    Text,
    Threads,
    section,
)


class FinetuneData(Section):
    source: Literal["embedded", "csv"] = Field(
        "embedded",
        description="embedded: passages of the State of the Union addresses and their year, as"
        " (year - 1900) / 50.\ncsv: a file of your own, with the columns below (others are"
        " ignored).",
    )
    passage_words: Annotated[int, Field(ge=5, le=1_000_000)] = Field(
        100,
        description="At most this many words in an embedded passage, and this many passages from a"
        " speech.",
    )
    passages_per_speech: Count = 16
    file: str | None = Field(None, description="The CSV file, and the names of its columns.")
    id_column: Text = "id"
    text_column: Text = "excerpt"
    target_column: Text = "target"
    group_column: Text | None = Field(
        None,
        description="Rows that share this column's value are never divided between folds; null:"
        " each row is dealt by itself, stratified by its target.",
    )


class AdamW(Section):
    renamed: ClassVar[dict[str, str]] = {"clip_norm": "max_grad_norm"}

    beta_1: BelowOne = 0.9
    beta_2: BelowOne = 0.98
    epsilon: Positive = 1e-8
    weight_decay: NotNegative = 0.01
    max_grad_norm: Positive | None = None


class Wandb(Section):
    mode: Literal["disabled", "offline", "online"] = "disabled"
    project: Text = "masked-language-model"


class Finetune(Section):
    renamed: ClassVar[dict[str, str]] = {
        "ridge_penalty": "ridge_penalties",
        "warmup_share": "warmup_ratio",
    }

    enabled: bool = Field(
        False,
        description="true: fine-tune every run and show it in the report. `snakemake finetune` does"
        " so anyway, and leaves the report alone. Models are of the families bert,"
        " modernbert, roberta, roberta-prelayernorm and xlm-roberta.",
    )
    task: Literal["regression", "classification"] = Field(
        "regression",
        description="regression (one number) or classification (a class by its name).",
    )
    data: FinetuneData = section(FinetuneData)
    seed: Seed | None = Field(
        None,
        description="null takes the seed above. Deals the folds, draws the random weights and"
        " shuffles every epoch.",
    )
    folds: Annotated[int, Field(ge=2, le=100)] = Field(
        5, description="Parts that are held out in turn, each one job."
    )
    seeds: Annotated[int, Field(ge=1, le=100)] = Field(
        2,
        description="Trainings of each fold and start, one after the other, each with a seed of its"
        " own. Scores are means over them, and the intervals include their variance; 1 leaves it"
        " out.",
    )
    epochs: Count = Field(10, description="Passes over the training passages.")
    max_length: Annotated[int, Field(ge=3, le=65_536)] = Field(
        128,
        description="Tokens of a passage that are read, at most what the model has positions for."
        " What is longer is cut and counted.",
    )
    per_device_batch_size: Count = Field(16, description="Passages on one device in one step.")
    learning_rate: Positive = Field(
        0.001,
        description="Peak of the learning rate, which falls linearly to 0, after a rise over"
        " warmup_ratio. A large model wants less (2.0e-5 to 5.0e-5 for roberta-base).",
    )
    warmup_ratio: BelowOne = 0.0
    dropout: BelowOne = 0.0
    optimizer: AdamW = section(
        AdamW,
        "AdamW; max_grad_norm: the global norm that gradients are clipped to, null: no clipping.",
    )
    cpu_threads: Threads = Field(
        1, description="Threads of a CPU's arithmetic in one fold. Folds run side by side."
    )
    wandb: Wandb = section(
        Wandb,
        "Also log every fold's epochs to Weights & Biases: disabled, offline (files below state/)"
        " or online (WANDB_API_KEY in the environment). Needs the package wandb.",
    )
    ridge_penalties: Annotated[list[Positive], Field(min_length=1)] = Field(
        [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0],
        description="L2 penalties of the baseline, TF-IDF and ridge regression. Each fold takes the"
        " one that predicts best what is left out of its training part, group by group, and chooses"
        " in the same way whether to count runs of characters beside words.",
    )
    resamples: Resamples = Field(
        2000,
        description="Bootstrap over groups (over rows where there are none) and over the trainings"
        " of each fold: the number of resamples and what the intervals hold.",
    )
    confidence: Confidence = 0.95

    def contradictions(self) -> list[str]:
        if self.data.source == "csv":
            if not self.data.file:
                return ["finetune.data.file: missing; name the CSV file with your examples"]
        elif self.task != "regression":
            return [
                f"finetune.task: {self.task} needs data of its own; set finetune.data.source: csv. "
                "The embedded task, the year of a passage, is a regression"
            ]
        return []

    def contradictions_with(self, family: str) -> list[str]:
        """Why a model that is trained here is not fine-tuned; nothing of one that is not."""
        if not self.enabled or family in JAX_FAMILIES or family not in FAMILIES:
            return []
        return [
            f"finetune.enabled: {family!r} is not fine-tuned here; choose one of "
            f"{', '.join(JAX_FAMILIES)}, or set it to false"
        ]
