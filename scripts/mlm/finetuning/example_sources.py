"""Where the examples of a fine-tuning come from: a CSV file, or the years of embedded speeches.

The year task asks which year a passage is from: its target is (year - 1900) / 50. Passages of one
year and president share subject and wording, so that these are the groups that folds keep together.
"""

import hashlib
import io
import math
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from mlm.config.finetune import COLUMNS, Finetune, FinetuneData
from mlm.corpus.decoding import table_rows
from mlm.corpus.embedded_corpus import address_of, paragraphs, speeches, speeches_by_split
from mlm.finetuning.artefacts import (
    Example,
    ExampleSource,
    ExamplesSummary,
    names_in,
    write_examples,
)
from mlm.finetuning.splitting import assign_folds
from mlm.finetuning.tagged_words import read_tagged, read_utf8, refuse
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed

#: Twice this, squared, is still a float32.
_LARGEST_TARGET = 9.0e18
#: Words of an embedded passage at most.
_PASSAGE_WORDS = 100
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")


def write_data(
    section: Finetune,
    seed: int,
    held_out: dict[str, float] | None,
    table: str | Path,
    summary: str | Path,
) -> None:
    """Write the examples with their folds, and a summary. `held_out` are the shares by which
    pretraining divided the embedded speeches; None if it read other text."""
    data, task = section.data, section.task
    if data.file and data.source != "embedded":
        read = partial(read_labelled_csv, task=task) if data.source == "csv" else read_tagged
        examples = read(data.file, data)
        source = ExampleSource(data.source, Path(data.file).name, file_sha256(data.file))
    else:
        examples, source = year_examples(data, seed, held_out), ExampleSource("embedded")
    _warn_of_copies(examples)
    folds = assign_folds(examples, task, section.folds, seed)
    write_examples(table, [replace(e, fold=f) for e, f in zip(examples, folds, strict=True)])
    target = classes = None
    if task != "regression":
        names = Counter(n for e in examples for n in names_in(e.target, task))
        classes = dict(sorted(names.items()))
    else:
        targets = [float(e.target) for e in examples]
        mean, deviation = statistics.fmean(targets), statistics.pstdev(targets)
        target = {"mean": round(mean, 6), "standard_deviation": round(deviation, 6)}
        target |= {"lowest": min(targets), "highest": max(targets)}
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


def _warn_of_copies(examples: list[Example]) -> None:
    """Warn of texts that stand in several groups: folds keep groups together, not such texts."""
    groups: dict[str, set[str]] = defaultdict(set)
    for example in examples:
        groups[example.excerpt].add(example.group)
    if copies := sum(len(names) > 1 for names in groups.values()):
        print(
            f"Warning: {copies} of {len(groups)} different texts are in more than one group, so "
            "that a fold may be tested on a text that it was trained on. Give them one group, or "
            "drop the copies",
            file=sys.stderr,
        )


def year_examples(
    data: FinetuneData, seed: int, held_out: dict[str, float] | None
) -> list[Example]:
    """Passages of every embedded speech, chosen by a keyed hash, none twice."""
    split_of = {}
    if held_out:
        splits = speeches_by_split(seed, held_out)
        split_of = {speech: name for name, members in splits.items() for speech in members}

    def order(named: tuple[str, str]) -> bytes:
        key = b"passage %d" % seed
        return hashlib.blake2b(named[0].encode(), digest_size=8, key=key).digest()

    examples, known = [], set()
    for speech, content in speeches().items():
        target = repr((int(speech[:4]) - 1900) / 50)
        candidates = []
        for i, passage in enumerate(passages(content, _PASSAGE_WORDS)):
            if passage not in known:
                known.add(passage)
                candidates.append((f"{speech}-{i:04d}", passage))
        chosen = sorted(sorted(candidates, key=order)[: data.passages_per_speech])
        group, split = address_of(speech), split_of.get(speech, "")
        examples += [Example(name, text, target, group, split) for name, text in chosen]
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


def read_labelled_csv(file: str, data: FinetuneData, task: str) -> list[Example]:
    """Return the examples of a CSV file, in its order, from the columns that `data` names. Raises
    MlmError with the keys of missing columns, or the rows that cannot be used."""
    columns = {key: name for key in COLUMNS if (name := getattr(data, key))}
    rows = csv_rows(file)
    header = next(rows, ("", []))[1]
    if wrong := [f"finetune.data.{k}: {n!r}" for k, n in columns.items() if header.count(n) != 1]:
        raise MlmError(
            f"{file}: each column must be there once, separated by commas.\n{listed(wrong)}\n"
            f"The file's columns: {', '.join(map(repr, header)) or 'none, it is empty'}"
        )
    examples, row_of, problems = [], {}, []
    for number, (where, row) in enumerate(rows, start=1):
        if len(row) != len(header):
            problems.append(
                f"{where}: {len(row)} cells, and the header has {len(header)}. Put a cell that "
                "holds a comma into double quotes"
            )
            continue
        cells = {key: row[header.index(name)].strip() for key, name in columns.items()}
        name, target = cells.setdefault("id_column", str(number)), cells["target_column"]
        wrong = {key: "empty" for key, cell in cells.items() if not cell}
        if name in row_of:
            wrong["id_column"] = f"{name!r} is the id of row {row_of[name]} already"
        if task == "regression" and target and (problem := _not_learnable(target)):
            wrong["target_column"] = f"{target!r} {problem}"
        problems += [f"{where}, column {columns[k]!r}: {problem}" for k, problem in wrong.items()]
        row_of[name] = number
        group = cells.get("group_column", "")
        examples.append(Example(name, cells["text_column"], target, group))
    refuse(problems, file, "Correct the rows or drop them")
    if not examples:
        raise MlmError(f"{file}: no row below the header")
    return examples


def csv_rows(file: str) -> Iterator[tuple[str, list[str]]]:
    """The rows that are not empty, the header first, each with its place in words."""
    remedy = (
        "save the table as CSV in UTF-8. One that is compressed (gzip, .xlsx, .parquet) is not "
        "read: decompress or convert it"
    )
    text = read_utf8(file, remedy)
    rows = table_rows(io.StringIO(text, newline=""), file, ",")
    for number, (line, row) in enumerate(rows):
        yield f"{file}, {f'row {number} (line {line})' if number else 'header'}", row


def _not_learnable(target: str) -> str | None:
    """Why a regression has no use for a target."""
    try:
        # Python alone reads 1_000 as a number.
        number = float(target.replace("_", "?"))
    except ValueError:
        return "is not a number (for classes, set finetune.task: classification)"
    if not math.isfinite(number):
        return "is not a finite number"
    if abs(number) > _LARGEST_TARGET:
        return "is too large for a squared error in float32: scale the targets to about 1"
    return None
