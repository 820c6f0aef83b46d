"""Where the examples of a fine-tuning come from: a CSV file, or the years of embedded speeches.

The year task asks which year a passage is from: its target is (year - 1900) / 50. Passages of one
year and president share subject and wording, so that these are the groups that folds keep together.
"""

import csv
import hashlib
import io
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from mlm.config.finetune import Finetune, FinetuneData
from mlm.corpus.embedded_corpus import address_of, paragraphs, speeches, speeches_by_split
from mlm.finetuning.artefacts import ExampleSource, ExamplesSummary
from mlm.finetuning.folds import assign_folds
from mlm.finetuning.tables import Example, write_rows
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError

#: Twice this, squared, is still a float32.
_LARGEST_TARGET = 9.0e18
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")


def write_data(
    section: Finetune, seed: int, pretraining: Mapping, table: str | Path, summary: str | Path
) -> None:
    """Write the examples with their folds, and a summary. `pretraining` has the `seed` and the
    shares `held_out` by which pretraining divided the embedded speeches; empty if it read other
    text."""
    data, task = section.data, section.task
    if data.source == "csv":
        examples = read_labelled_csv(data, task)
        source = ExampleSource("csv", Path(data.file).name, file_sha256(data.file))
    else:
        examples, source = year_examples(data, seed, pretraining), ExampleSource("embedded")
    folds = assign_folds(examples, task, section.folds, seed)
    write_rows(table, [replace(e, fold=fold) for e, fold in zip(examples, folds, strict=True)])
    target = classes = None
    if task == "classification":
        classes = dict(sorted(Counter(e.target for e in examples).items()))
    else:
        targets = [float(e.target) for e in examples]
        target = {
            "mean": round(statistics.fmean(targets), 6),
            "standard_deviation": round(statistics.pstdev(targets), 6),
            "lowest": min(targets),
            "highest": max(targets),
        }
    ExamplesSummary(
        task=task,
        source=source,
        examples=len(examples),
        groups=len({e.group for e in examples if e.group}),
        words=sum(len(e.excerpt.split()) for e in examples),
        splits=dict(sorted(Counter(e.split for e in examples if e.split).items())),
        folds=[folds.count(fold) for fold in range(section.folds)],
        target=target,
        classes=classes,
    ).write(summary)


def year_examples(data: FinetuneData, seed: int, pretraining: Mapping) -> list[Example]:
    """Passages of every embedded speech, chosen by a keyed hash, none twice."""
    split_of = {}
    if pretraining:
        found_in = speeches_by_split(pretraining["seed"], pretraining["held_out"])
        split_of = {speech: name for name, members in found_in.items() for speech in members}

    def turn(named: tuple[str, str]) -> bytes:
        key = b"passage %d" % seed
        return hashlib.blake2b(named[0].encode(), digest_size=8, key=key).digest()

    found, seen = [], set()
    for speech, content in speeches().items():
        target = repr((int(speech[:4]) - 1900) / 50)
        candidates = []
        for i, passage in enumerate(passages(content, data.passage_words)):
            if passage not in seen:
                seen.add(passage)
                candidates.append((f"{speech}-{i:04d}", passage))
        chosen = sorted(sorted(candidates, key=turn)[: data.passages_per_speech])
        group, split = address_of(speech), split_of.get(speech, "")
        found += [Example(*named, target, group, split) for named in chosen]
    return found


def passages(speech: str, words: int) -> Iterator[str]:
    """The speech cut into runs of whole sentences of at most `words` words, or one longer sentence;
    a rest shorter than a third of that is left out."""
    held: list[str] = []
    count = 0
    for paragraph in paragraphs(speech):
        for sentence in _SENTENCE_END.split(" ".join(paragraph.split())):
            length = len(sentence.split())
            if held and count + length > words:
                yield " ".join(held)
                held, count = [], 0
            held.append(sentence)
            count += length
    if 3 * count >= words:
        yield " ".join(held)


def read_labelled_csv(data: FinetuneData, task: str) -> list[Example]:
    """The examples of the CSV file `data.file`, in its order; other columns are ignored. MlmError
    names row, line and column of what is wrong."""
    columns = [data.id_column, data.text_column, data.target_column]
    columns += [data.group_column] if data.group_column else []
    rows = _rows(data.file)
    _, header = next(rows, ("", []))
    for column in columns:
        if header.count(column) != 1:
            raise MlmError(
                f"{data.file}: {header.count(column)} columns are named {column!r}; found: "
                f"{', '.join(map(repr, header)) or 'an empty file'}. Name one in finetune.data"
            )
    examples, row_of = [], {}
    for number, (where, row) in enumerate(rows, start=1):
        if len(row) != len(header):
            raise MlmError(
                f"{where}: {len(row)} cells, and the header has {len(header)}. Put a cell that "
                "holds a comma into double quotes"
            )
        cells = [row[header.index(column)].strip() for column in columns]
        name, _, target, *_ = cells
        wrong = {column: "empty" for column, cell in zip(columns, cells, strict=True) if not cell}
        if name in row_of:
            wrong[data.id_column] = f"{name!r} is the id of row {row_of[name]} already"
        if task == "regression" and target and (problem := _not_learnable(target)):
            wrong[data.target_column] = f"{target!r} {problem}"
        for column, problem in wrong.items():
            raise MlmError(f"{where}, column {column!r}: {problem}; correct it or drop the row")
        row_of[name] = number
        examples.append(Example(*cells))
    if not examples:
        raise MlmError(f"{data.file}: no row below the header")
    return examples


def _rows(file: str) -> Iterator[tuple[str, list[str]]]:
    """The rows that are not empty, the header first, each with its place in words."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MlmError(f"finetune.data.file: {file} does not exist") from None
    except UnicodeDecodeError as error:
        raise MlmError(f"{file}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    reader, number = csv.reader(io.StringIO(text, newline=""), strict=True), 0
    while True:
        place = f"row {number} (line {reader.line_num + 1})" if number else "header"
        where = f"{file}, {place}"
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise MlmError(
                f"{where}: a quote is not closed, or is inside a cell ({error}, line "
                f"{reader.line_num}). Close it, and write a quote inside quotes twice"
            ) from None
        if row is None:
            return
        if row:
            yield where, row
            number += 1


def _not_learnable(target: str) -> str | None:
    """Why a regression has no use for a target."""
    try:
        number = float(target)
    except ValueError:
        return "is not a number (for classes, set finetune.task: classification)"
    if not math.isfinite(number):
        return "is not a finite number"
    if abs(number) > _LARGEST_TARGET:
        return "is too large for a squared error in float32: scale the targets to about 1"
    return None
