"""Where the examples of a fine-tuning come from: a file, or the years of embedded speeches.

The year task asks which year a passage is from: its target is (year - 1900) / 50. Passages of one
year and president share subject and wording, so that these are the groups that folds keep together.
"""

import hashlib
import io
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlm.config.finetune import Finetune, FinetuneData
from mlm.corpus.bytes_to_text import table_rows
from mlm.corpus.embedded_corpus import address_of, paragraphs, speeches
from mlm.corpus.source_files import not_fetched
from mlm.finetuning.artefacts import Example, ExamplesSummary, names_in, write_examples
from mlm.finetuning.fold_assignment import assign_folds
from mlm.finetuning.tagged_files import tagged_sentences
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed

#: Twice this, squared, is still a float32.
_LARGEST_TARGET = 9.0e18
#: Words of an embedded passage at most.
_PASSAGE_WORDS = 100
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")
#: Problems of a file that a message lists at most.
_SHOWN = 10
#: Keys that name the columns of a CSV file, in the order in which an example holds their cells.
_COLUMNS = ("text_column", "target_column", "group_column")


def write_data(section: Finetune, seed: int, table: str | Path, summary: str | Path) -> None:
    """Write the examples with their folds to `table`, and their `summary`."""
    data, task = section.data, section.task
    described: dict[str, Any] = {}
    if data.file and data.source != "embedded":
        examples = labelled_examples(data, task)
        described = {"file": Path(data.file).name, "sha256": file_sha256(data.file)}
    else:
        examples = year_examples(data, seed)
    folds = assign_folds(examples, task, section.folds, seed)
    write_examples(table, [replace(e, fold=f) for e, f in zip(examples, folds, strict=True)])
    if task == "regression":
        targets = [float(e.target) for e in examples]
        mean, deviation = statistics.fmean(targets), statistics.pstdev(targets)
        target = {"mean": mean, "standard_deviation": deviation}
        described["target"] = {name: float(f"{x:.7g}") for name, x in target.items()}
    else:
        names = Counter(n for e in examples for n in names_in(e.target, task))
        described |= {"classes": dict(sorted(names.items()))}
    ExamplesSummary(
        task=task,
        source=data.source,
        examples=len(examples),
        groups=len({e.group for e in examples if e.group}),
        words=sum(len(e.excerpt.split()) for e in examples),
        folds=[folds.count(fold) for fold in range(section.folds)],
        **described,
    ).write(summary)


def year_examples(data: FinetuneData, seed: int) -> list[Example]:
    """Passages of every embedded speech, chosen by a keyed hash, none twice."""

    def order(named: tuple[str, str]) -> bytes:
        key = b"passage %d" % seed
        return hashlib.blake2b(named[0].encode(), digest_size=8, key=key).digest()

    examples, known = [], set()
    for speech, content in speeches().items():
        target, group = repr((int(speech[:4]) - 1900) / 50), address_of(speech)
        candidates = []
        for i, passage in enumerate(passages(content, _PASSAGE_WORDS)):
            if passage not in known:
                known.add(passage)
                candidates.append((f"{speech}-{i:04d}", passage))
        chosen = sorted(sorted(candidates, key=order)[: data.passages_per_speech])
        examples += [Example(name, text, target, group) for name, text in chosen]
    return examples


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


def labelled_examples(data: FinetuneData, task: str) -> list[Example]:
    """Return the examples of `finetune.data.file`, in its order. Raises MlmError with the keys of
    missing columns, or the lines that cannot be used."""
    file = data.file or ""
    if data.source == "csv":
        examples, problems = _csv_examples(file, data, task)
    else:
        lines = _read_text(file, "save the file as UTF-8").split("\n")
        examples, problems = tagged_sentences(lines, data)
    if problems:
        more = f"\nand {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise MlmError(
            f"{len(problems)} problems in {file}. Correct these lines, or drop their rows or "
            f"sentences:\n{listed(problems[:_SHOWN])}{more}"
        )
    if not examples:
        raise MlmError(f"{file}: no row or sentence is in it")
    return examples


def _csv_examples(file: str, data: FinetuneData, task: str) -> tuple[list[Example], Sequence[str]]:
    """The examples of a CSV file, and its problems."""
    columns = {key: name for key in _COLUMNS if (name := getattr(data, key))}
    rows = csv_rows(file)
    header = next(rows, ("", []))[1]
    if wrong := [f"finetune.data.{k}: {n!r}" for k, n in columns.items() if header.count(n) != 1]:
        raise MlmError(
            f"{file}: each column must be there once, separated by commas.\n{listed(wrong)}\n"
            f"The file's columns: {', '.join(map(repr, header)) or 'none, it is empty'}"
        )
    examples, problems = [], []
    for number, (where, row) in enumerate(rows, start=1):
        if len(row) != len(header):
            problems.append(f"{where}: {wrong_number_of_cells(row, header)}")
            continue
        cells = [row[header.index(name)].strip() for name in columns.values()]
        text, target, *group = cells
        named = zip(columns.values(), cells, strict=True)
        wrong = [(name, "empty") for name, cell in named if not cell]
        if task == "regression" and target and (problem := _not_learnable(target)):
            wrong.append((data.target_column, f"{target!r} {problem}"))
        problems += [f"{where}, column {name!r}: {problem}" for name, problem in wrong]
        examples.append(Example(str(number), text, target, "".join(group)))
    return examples, problems


def csv_rows(file: str, key: str = "finetune.data.file") -> Iterator[tuple[str, list[str]]]:
    """The rows that are not empty, the header first, each with its place; `key` names the file."""
    remedy = (
        "save the table as CSV in UTF-8. One that is compressed (gzip, .xlsx, .parquet) is not "
        "read: decompress or convert it"
    )
    text = _read_text(file, remedy, key)
    rows = table_rows(io.StringIO(text, newline=""), file, ",")
    for number, (line, row) in enumerate(rows):
        yield f"{file}, {f'row {number} (line {line})' if number else 'header'}", row


def wrong_number_of_cells(row: Sequence[str], header: Sequence[str]) -> str:
    """Say that a row has another number of cells than the header."""
    remedy = "Put a cell that holds a comma into double quotes"
    return f"{len(row)} cells, and the header has {len(header)}. {remedy}"


def _read_text(file: str, remedy: str, key: str = "finetune.data.file") -> str:
    """Return the text of the file that `key` names. Raises MlmError if there is none in UTF-8."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MlmError(f"{key}: {file} does not exist") from None
    except UnicodeDecodeError as error:
        raise MlmError(f"{file}: byte {error.start} is not UTF-8; {remedy}") from None
    if problem := not_fetched(file):
        raise MlmError(f"{key}: {problem}")
    return text


def _not_learnable(target: str) -> str | None:
    """Why a regression has no use for a target."""
    try:
        # Python alone reads 1_000 as a number.
        number = float(target.replace("_", "?"))
    except ValueError:
        return "is not a number (for classes, set finetune.task: classification)"
    if math.isfinite(number) and abs(number) <= _LARGEST_TARGET:
        return None
    return "is no finite number for a squared error in float32: scale the targets to about 1"
