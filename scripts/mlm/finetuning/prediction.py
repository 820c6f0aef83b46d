"""New texts, and what a fine-tuned model predicts for them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.special import softmax

from mlm.config.accelerator import Accelerator
from mlm.finetuning.artefacts import texts_of
from mlm.finetuning.example_sources import csv_rows
from mlm.finetuning.fold_task import (
    encoder_of,
    first_pieces,
    on_devices,
    padded,
    tags_of,
    tokenised,
)
from mlm.finetuning.sequence_model import sequence_model, tags_words
from mlm.foundations.atomic import write_csv
from mlm.foundations.errors import MlmError
from mlm.model.checkpoints import Checkpoint
from mlm.training.in_jax.devices import open_mesh

#: Texts in one step.
_BATCH = 32


def predict_csv(
    file: str, column: str, model: str | Path, output: str | Path, accelerator: Accelerator
) -> int:
    """Write the rows of a CSV file to `output`, with what the `model` in a directory predicts for
    the text in `column`; return their number. MlmError if there is no such column."""
    (_, header), *rows = csv_rows(file)
    if column not in header:
        raise MlmError(
            f"{file}: there is no column {column!r}. Name one with --text-column: "
            f"{', '.join(map(repr, header))}"
        )
    for where, row in rows:
        if len(row) != len(header):
            raise MlmError(f"{where}: {len(row)} cells, and the header has {len(header)}")
    place = header.index(column)
    columns, predictions = predicted(model, [row[place] for _, row in rows], accelerator)
    cells = ([*row, *new] for (_, row), new in zip(rows, predictions, strict=True))
    write_csv(output, [*header, *columns], cells)
    return len(rows)


def predicted(
    directory: str | Path, texts: Sequence[str], accelerator: Accelerator
) -> tuple[list[str], Iterator[list[str]]]:
    """The names of the columns, `value`, or `label` and one for the probability of each class, or
    `tags` (of the words of a text), and the cells of each text."""
    devices = open_mesh(accelerator)
    checkpoint = Checkpoint.read(str(directory), "--run")
    fields = checkpoint.fields
    classes = [] if fields.get("problem_type") == "regression" else list(fields["label2id"])
    how = 0.0, devices.precision, checkpoint.place, tags_words(fields)
    model = sequence_model(fields, classes, *how)
    encoder, longest = encoder_of(checkpoint, published=False)
    most, forward = model.length(longest), on_devices(model, devices.strategy)

    def logits(arrays: dict[str, np.ndarray]) -> np.ndarray:
        return forward(checkpoint.weights, arrays, _BATCH * devices.replicas)

    if model.tags_words:
        sentences = [text.split() for text in texts]
        rows, pieces = zip(*(first_pieces(s, encoder, most) for s in sentences), strict=True)
        tags = tags_of(logits(padded(rows, encoder.special_ids.pad)), pieces, classes)
        return ["tags"], ([row] for row in tags)
    outputs = logits(tokenised(encoder, texts, most)[0])
    labels = texts_of(outputs, classes)
    if not classes:
        return ["value"], ([label] for label in labels)
    shares = softmax(outputs.astype(np.float64), axis=-1)
    cells = ([label, *(f"{s:.6f}" for s in row)] for label, row in zip(labels, shares, strict=True))
    return ["label", *(f"probability of {name}" for name in classes)], cells
