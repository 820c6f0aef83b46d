"""Section `finetune`: a labelled task that each run's model is trained on further."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field

from mlm.config import fields
from mlm.config.fields import BelowOne, Count, FilePath, NoBoolean, Positive, Section, Text, section
from mlm.config.model import unfit_encoder

#: A published encoder's name in results, one that is a path and none of another row.
_LABEL = re.compile(r"(?!(pretrained|random|baseline)$)([\w.-]+/)?[A-Za-z0-9][\w.@-]*", re.A)
#: A number stands for a list of one.
_OneOrMore = Annotated[
    list[Positive],
    Field(min_length=1),
    BeforeValidator(
        lambda value: value if isinstance(value, list) else [value],
        json_schema_input_type=Positive | list[Positive],
    ),
]


class FinetuneData(Section):
    source: Literal["embedded", "csv", "conll", "jsonl"] = "embedded"
    """embedded: passages of the State of the Union addresses and their year, as (year - 1900) / 50.
    csv: a file with the columns below. conll (on each line a word and, last, its tag) and jsonl
    (objects with the lists tokens and tags): sentences whose words have tags."""
    passages_per_speech: Count = 16
    """Maximum number of embedded passages, of up to 100 words, from a speech."""
    file: FilePath | None = None
    """The file of csv, conll or jsonl."""
    text_column: Text = "text"
    """A CSV's column of texts."""
    target_column: Text = "label"
    """A CSV's column of numbers or classes."""
    group_column: Text | None = None
    """Column of groups: a group is in one fold. null: rows are assigned one by one."""


class FinetuneOptimizer(Section):
    weight_decay: fields.NotNegative = 0.01
    """Decoupled weight decay."""
    max_grad_norm: Positive | None = None
    """Maximum global norm of the gradients, for clipping; null: no clipping."""


class Finetune(Section):
    enabled: bool = False
    """Fine-tune with the rest of the workflow, as `snakemake finetune` does in any case."""
    also: list[FilePath] = []
    """Published encoders to compare with, on the same folds: directories in the Hugging Face layout
    with safetensors and a tokenizer.json, or owner/name@COMMIT on the Hub."""
    task: Literal["regression", "classification", "token_classification"] = "regression"
    """Predict a number, the name of a class, or a tag for each word."""
    data: FinetuneData = section(FinetuneData)
    folds: Annotated[int, Field(ge=2, le=100), NoBoolean] = 5
    """Number of folds of the cross-validation, each one job and one training."""
    epochs: Count = 10
    """Passes over the training passages."""
    max_length: Annotated[int, Field(ge=3, le=65_536), NoBoolean] | None = None
    """Maximum number of tokens, beyond which passages are truncated; null: the model's."""
    per_device_batch_size: Count = 16
    """Passages on one device in one step."""
    learning_rate: _OneOrMore = [0.001]
    """Peak learning rate, which decays linearly to 0: a number, or a list, of which each fold takes
    the best by its score on a fifth of the training part. roberta-base needs 2.0e-5 to 5.0e-5."""
    warmup_ratio: BelowOne = 0.0
    """Share of the steps for a linear warmup to the peak."""
    dropout: BelowOne = 0.0
    """Dropout probability during fine-tuning."""
    optimizer: FinetuneOptimizer = section(FinetuneOptimizer)
    cpu_threads: fields.Threads = 1
    """CPU threads for the arithmetic of one fold. Folds run in parallel."""

    @property
    def for_examples(self) -> Self:
        """The section for the job that deals examples to folds."""
        return self.only("task", "data", "folds")

    @property
    def for_folds(self) -> Self:
        """The section for the jobs that train folds and put them together."""
        return self.with_defaults("enabled", "also", "data")

    def contradictions(self) -> Iterator[str]:
        source, tags = self.data.source, self.task == "token_classification"
        fitting = ["conll", "jsonl"] if tags else ["csv"]
        fitting += ["embedded"] if self.task == "regression" else []
        if source not in fitting:
            sources = " or ".join(fitting)
            yield f"data.source: {source} has no examples for task: {self.task}; set {sources}"
        if source != "embedded" and not self.data.file:
            yield f"data.file: missing; name the {source} file with your examples"
        if source == "embedded" and self.data.file and "source" not in self.data.model_fields_set:
            yield "data.source: embedded, which does not read data.file. Set csv, conll or jsonl"
        labels = [label_of(place) for place in self.also]
        for i, place in enumerate(self.also):
            yield from (f"also[{i}]: {line}" for line in unfit_encoder(place))
            label, is_known = labels[i], labels[i] in labels[:i]
            if is_known or (Path(place).is_dir() and not _LABEL.fullmatch(label)):
                yield (
                    f"also[{i}]: {place}: {label!r} cannot be its name in tables and paths. Name "
                    "each encoder once, in directories of a to z, A to Z, digits, '_', '-' and '.'"
                )


def label_of(place: str) -> str:
    """The name of the published encoder `place`: its directory's, or a Hub id and its commit."""
    name, at, commit = place.partition("@")
    return f"{name}@{commit[:8]}" if at and not Path(place).is_dir() else Path(place).name
