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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mlm.config.finetune import COLUMNS, Finetune, FinetuneData
from mlm.corpus.embedded_corpus import address_of, paragraphs, speeches, speeches_by_split
from mlm.corpus.formats import not_fetched
from mlm.corpus.separated_values import table_rows
from mlm.finetuning.artefacts import ExampleSource, ExamplesSummary
from mlm.finetuning.tables import Example, write_rows
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, listed

#: Twice this, squared, is still a float32.
_LARGEST_TARGET = 9.0e18
#: Words of an embedded passage at most.
_PASSAGE_WORDS = 100
#: Problems of a file that a message lists at most.
_SHOWN = 10
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")


def write_data(
    section: Finetune,
    seed: int,
    held_out: Mapping[str, float] | None,
    table: str | Path,
    summary: str | Path,
) -> None:
    """Write the examples with their folds, and a summary. `held_out` are the shares by which
    pretraining divided the embedded speeches; None if it read other text."""
    data, task = section.data, section.task
    if data.source == "csv":
        examples = read_labelled_csv(data, task)
        source = ExampleSource("csv", Path(data.file).name, file_sha256(data.file))
    else:
        examples, source = year_examples(data, seed, held_out), ExampleSource("embedded")
    _warn_of_copies(examples)
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
    data: FinetuneData, seed: int, held_out: Mapping[str, float] | None
) -> list[Example]:
    """Passages of every embedded speech, chosen by a keyed hash, none twice."""
    split_of = {}
    if held_out:
        splits = speeches_by_split(seed, held_out)
        split_of = {speech: name for name, members in splits.items() for speech in members}

    def turn(named: tuple[str, str]) -> bytes:
        key = b"passage %d" % seed
        return hashlib.blake2b(named[0].encode(), digest_size=8, key=key).digest()

    found, seen = [], set()
    for speech, content in speeches().items():
        target = repr((int(speech[:4]) - 1900) / 50)
        candidates = []
        for i, passage in enumerate(passages(content, _PASSAGE_WORDS)):
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
    """Return the examples of the CSV file `data.file`, in its order; other columns are ignored.
    Raises MlmError with the keys of missing columns, or the rows that cannot be used."""
    columns = {key: name for key in COLUMNS if (name := getattr(data, key))}
    rows = _rows(data.file)
    header = next(rows, ("", []))[1]
    counts = {key: header.count(name) for key, name in columns.items()}
    if missing := [key for key, count in counts.items() if count != 1]:
        lines = [f"finetune.data.{key}: {columns[key]!r} names {counts[key]}" for key in missing]
        raise MlmError(
            f"{data.file}: each column must be there once.\n{listed(lines)}\nThe file's columns: "
            f"{', '.join(map(repr, header)) or 'none, it is empty'}"
            f"{'. Separate them with commas' if len(header) == 1 else ''}"
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
        texts = (cells[key] for key in COLUMNS if key in cells)
        examples.append(Example(*texts))
    if problems:
        more = f"\nand {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise MlmError(
            f"{len(problems)} problems in {data.file}. Correct the rows or drop them:\n"
            f"{listed(problems[:_SHOWN])}{more}"
        )
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
        raise MlmError(
            f"{file}: byte {error.start} is not UTF-8; save the table as CSV in UTF-8. One that is "
            "compressed (gzip, .xlsx, .parquet) is not read: decompress or convert it"
        ) from None
    if problem := not_fetched(file):
        raise MlmError(f"finetune.data.file: {problem}")
    rows = table_rows(enumerate(io.StringIO(text, newline=""), 1), file, ",")
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


def assign_folds(examples: Sequence[Example], task: str, folds: int, seed: int) -> list[int]:
    """The fold of each example, from 0, whatever their order: units (groups, or examples of one
    text) are ordered by a keyed hash inside strata of the target and dealt to the folds in order.
    Strata of a number are bins of equal population. MlmError for fewer units than folds,
    and if all units of a class fall into one fold, which would have nothing to learn it from."""
    units: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        units[example.unit].append(example)
    if len(units) < folds:
        what = "groups" if any(e.group for e in examples) else "different texts"
        raise MlmError(
            f"finetune.folds: {folds} folds need at least {folds} {what}, and the data has "
            f"{len(units)}. Give more data, or fewer folds"
        )
    if task == "classification":
        counted = {u: Counter(e.target for e in found) for u, found in units.items()}
        strata = {u: min(c, key=lambda t: (-c[t], t)) for u, c in counted.items()}
    else:
        strata = _bins({u: sum(float(e.target) for e in f) / len(f) for u, f in units.items()})

    def turn(unit: str) -> tuple:
        key = b"fold %d" % seed
        return strata[unit], hashlib.blake2b(unit.encode(), digest_size=8, key=key).digest(), unit

    fold_of = {unit: place % folds for place, unit in enumerate(sorted(units, key=turn))}
    if task == "classification":
        _check_classes(examples, fold_of)
    return [fold_of[e.unit] for e in examples]


def _bins(means: dict[str, float]) -> dict[str, int]:
    """The stratum of each unit: bins of equal population, at most Sturges' number of them."""
    ordered = sorted(means, key=lambda u: (means[u], u))
    number = len(ordered).bit_length()
    return {unit: place * number // len(ordered) for place, unit in enumerate(ordered)}


def _check_classes(examples: Sequence[Example], fold_of: dict[str, int]) -> None:
    examples_of: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        examples_of[example.target].append(example)
    if len(examples_of) < 2:
        raise MlmError(
            "finetune.task: classification needs two classes, and the data has only "
            f"{next(iter(examples_of))!r}"
        )
    problems = []
    for name, members in sorted(examples_of.items()):
        folds = {fold_of[example.unit] for example in members}
        if len(folds) == 1:
            names = sorted({e.group or e.id for e in members})
            shown = f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
            problems.append(f"{name!r}: fold {min(folds)} ({shown})")
    if problems:
        raise MlmError(
            "finetune.data: these classes are in one fold alone, so that they would be tested "
            f"there without having been learned:\n{listed(problems)}\nAdd groups or rows of each, "
            "merge it into another class, drop it, or set another seed, which deals the "
            "groups again"
        )
