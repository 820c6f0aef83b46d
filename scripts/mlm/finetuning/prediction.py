"""New texts, and what a fine-tuned model predicts for them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.special import softmax

from mlm.config.accelerator import Accelerator
from mlm.finetuning.encoded_examples import EncodedTexts, encoder_of
from mlm.finetuning.example_sources import csv_rows, wrong_number_of_cells
from mlm.finetuning.fold_training import on_devices
from mlm.finetuning.sequence_model import sequence_model, tags_words
from mlm.foundations.atomic import write_csv
from mlm.foundations.errors import MlmError
from mlm.model.model_files import Checkpoint
from mlm.training.in_jax.devices import open_mesh

#: Texts in one step.
_BATCH = 32


def predict_csv(
    file: str, column: str, model: str | Path, output: str | Path, accelerator: Accelerator
) -> int:
    """Write the rows of a CSV file to `output`, with what the `model` in a directory predicts for
    the text in `column`; return their number. MlmError if there is no such column, or no row."""
    (_, header), *rows = [*csv_rows(file, "--csv")] or [("", [])]
    if not rows:
        raise MlmError(f"--csv: {file} has no row below a header. Add one for each text")
    if column not in header:
        raise MlmError(
            f"{file}: there is no column {column!r}. Name one with --text-column: "
            f"{', '.join(map(repr, header))}"
        )
    for where, row in rows:
        if len(row) != len(header):
            raise MlmError(f"{where}: {wrong_number_of_cells(row, header)}")
    place = header.index(column)
    columns, predictions = predicted(model, [row[place] for _, row in rows], accelerator)
    cells = ([*row, *new] for (_, row), new in zip(rows, predictions, strict=True))
    write_csv(output, [*header, *columns], cells)
    return len(rows)


def predicted(
    directory: str | Path, texts: Sequence[str], accelerator: Accelerator
) -> tuple[list[str], Iterator[list[str]]]:
    """The names of the columns and the cells of each text: `value`; `label` and the probability of
    each class; or, of the words of a text, `tags` and their `probabilities`."""
    devices = open_mesh(accelerator)
    checkpoint = Checkpoint.read(str(directory), "--run")
    fields, has_tags = checkpoint.fields, tags_words(checkpoint.fields)
    classes = [] if fields.get("problem_type") == "regression" else list(fields["label2id"])
    precision = devices.precision if classes else "float32"  # bfloat16 has no 1950, but 1952.
    model = sequence_model(fields, classes, 0.0, precision, checkpoint.place, has_tags)
    encoder, longest = encoder_of(checkpoint, published=False)
    if has_tags:
        texts = ["\t".join(text.split()) for text in texts]
    encoded = EncodedTexts.of(texts, encoder, model.length(longest), has_tags)
    forward, size = on_devices(model, devices.strategy), _BATCH * devices.replicas
    outputs = forward(checkpoint.weights, encoded.arrays, size).astype(np.float64)
    labels, shares = encoded.predictions(outputs, classes), softmax(outputs, axis=-1)
    if not classes:
        return ["value"], ([label] for label in labels)
    if has_tags:
        # A word that the model does not see has no probability.
        highest = [
            [row[place].max() if place else 0 for place in places]
            for row, places in zip(shares, encoded.pieces, strict=True)
        ]
        words = (" ".join(f"{share:.4f}" for share in row) for row in highest)
        return ["tags", "probabilities"], map(list, zip(labels, words, strict=True))
    cells = ([label, *(f"{s:.6f}" for s in row)] for label, row in zip(labels, shares, strict=True))
    return ["label", *(f"probability of {name}" for name in classes)], cells
