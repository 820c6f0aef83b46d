"""The first configuration of a user's project, from a look at the text and a few timed steps."""

import csv
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from mlm.check.check import Forecast, check
from mlm.check.rehearsed_data import Stage
from mlm.config.corpus import Corpus
from mlm.config.resolution import resolve
from mlm.corpus.document_reading import decompressed, read_documents
from mlm.corpus.formats import FORMATS, file_format
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.terminal import in_bytes

#: Files, lines of each, and rows of a table that are looked at.
_FILES, _LINES, _ROWS = 20, 2000, 200
#: Groups that a held-out split should have, and its largest share.
_GROUPS, _LARGEST_SHARE = 25, 0.2
#: Tokens in a step, and epochs after which a small model mostly repeats what it has seen.
_TOKENS_A_STEP, _EPOCHS = 4096, 30
#: Share of the minutes that is planned for; machines are not always as idle as now.
_PLANNED = 0.9
_STEPS_TRIED = 2000
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]")
_TEXTS = ("text", "content", "sentence", "document", "excerpt", "body")
_MASK = "[MASK]"
_CLASSES = 50


@dataclass
class TextFiles:
    """The text files below a folder: glob `patterns`, the `kinds` of files with their number, what
    was `skipped` by ending, and settings of section `corpus` that reading them needs."""

    patterns: list[str]
    kinds: Counter
    skipped: Counter
    size: int
    settings: dict[str, Any] = field(default_factory=dict)
    groups: float = 0
    documents: list[str] = field(default_factory=list)


def look_at(folder: Path) -> TextFiles:
    """Look at the files below `folder`. MlmError if none can be read, or their columns differ."""
    paths = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.parts[1:])
    )
    by_kind: dict[str, list[Path]] = {}
    patterns, skipped = set(), Counter()
    for path in paths:
        try:
            kind, _ = file_format(path.name)
        except MlmError:
            skipped[path.suffix or path.name] += 1
            continue
        by_kind.setdefault(kind, []).append(path)
        endings = path.name.lower().split(".")[1:]
        ending = ".".join(endings[endings.index(kind) :])
        patterns.add(f"{folder.resolve()}/**/*.{path.name[-len(ending) :]}")
    if not by_kind:
        others = ", ".join(f"{number} × {name}" for name, number in skipped.most_common(5))
        raise MlmError(
            f"{folder}: no file that can be read (there are: {others or 'no files'}). Expected are "
            f"{', '.join('.' + name for name in FORMATS)}, plain or compressed; convert others to "
            ".txt first"
        )
    size = sum(os.path.getsize(path) for group in by_kind.values() for path in group)
    kinds = Counter({kind: len(group) for kind, group in by_kind.items()})
    files = TextFiles(sorted(patterns), kinds, skipped, size)
    _read_a_sample(by_kind, files)
    return files


def _read_a_sample(by_kind: dict[str, list[Path]], files: TextFiles) -> None:
    """Fill in the settings, number of groups and documents of `files`."""
    text_columns = {
        name for kind, group in by_kind.items() if (name := text_column(group[0], kind)) is not None
    }
    if len(text_columns) > 1:
        raise MlmError(
            "The files name their text differently: columns "
            f"{', '.join(map(repr, sorted(text_columns)))}. Rename them, or put the formats into "
            "folders and write a mix (docs/corpus.md)"
        )
    if text_columns:
        files.settings["text_column"] = text_columns.pop()
    if plain := by_kind.get("txt"):
        files.settings["files"] = {"document_per": _document_per(plain)}
    corpus = Corpus.model_validate({"source": "files", **files.settings})
    number, total = sum(files.kinds.values()), 0.0
    paths = [path for group in by_kind.values() for path in group]
    sampled = paths[:: max(1, number // _FILES)]
    for path in sampled:
        documents = list(islice(_documents(path, corpus), _LINES))
        files.documents += documents
        read = sum(len(text.encode()) for text in documents) or 1
        total += len(documents) * max(1.0, os.path.getsize(path) / read)
    if not any(text.strip() for text in files.documents):
        raise MlmError(f"{sampled[0]}: no text in it, nor in the others that were looked at")
    if number >= 2 * _GROUPS:
        files.settings["group_per"] = "file"
        files.groups = number
    else:
        files.groups = total / len(sampled) * number


def _documents(path: Path, corpus: Corpus) -> Iterator[str]:
    kind, compression = file_format(path.name)
    with open(path, "rb") as file, decompressed(file, compression) as stream:
        for document in read_documents(stream, str(path), kind, corpus):
            yield document.text


def _lines(path: Path) -> list[str]:
    _, compression = file_format(path.name)
    with open(path, "rb") as file, decompressed(file, compression) as stream:
        return [line.decode("utf-8", "replace") for line in islice(stream, _LINES)]


def _document_per(paths: Sequence[Path]) -> str:
    """What one document of .txt files is: a paragraph if blank lines separate some, else a line."""
    lines = [line.strip() for path in paths[:_FILES] for line in _lines(path)]
    return "paragraph" if sum(not line for line in lines) / max(1, len(lines)) > 0.05 else "line"


def text_column(path: Path, kind: str) -> str | None:
    """The column of the text in a table or in JSON lines: one of the usual names, else the one with
    the longest texts; None for plain text."""
    if kind == "txt":
        return None
    if kind == "parquet":
        rows = next(pq.ParquetFile(path).iter_batches(_ROWS), None)
        columns = {} if rows is None else rows.to_pydict()
    elif kind in ("csv", "tsv"):
        columns = read_columns(_lines(path)[:_ROWS], "\t" if kind == "tsv" else ",")
    else:
        records: list = []
        # A line that is no JSON is refused where the documents are read, with its number.
        with suppress(ValueError):
            records = [json.loads(line) for line in _lines(path)[:_ROWS] if line.strip()]
        names = {name for record in records if isinstance(record, dict) for name in record}
        columns = {name: [record.get(name) for record in records] for name in names}
    lengths = {
        name: sum(len(value) for value in values if isinstance(value, str))
        for name, values in columns.items()
    }
    if not any(lengths.values()):
        raise MlmError(f"{path}: no column of text. There are: {', '.join(columns) or 'none'}")
    usual = [name for name in _TEXTS if lengths.get(name)]
    return usual[0] if usual else max(sorted(lengths), key=lambda name: lengths[name])


def read_columns(lines: Iterable[str], separator: str = ",") -> dict[str, list[str]]:
    """The columns of a table by the names in its first row."""
    header, *rows = list(csv.reader(lines, delimiter=separator)) or [[]]
    return {
        name: [row[place] for row in rows if len(row) == len(header)]
        for place, name in enumerate(header)
    }


def labelled_task(path: Path) -> dict[str, Any]:
    """Section `finetune` for a CSV file: its text is the column of the longest texts, its label one
    of few values (classes) or of numbers. Raises MlmError if no column is either."""
    if path.suffix.lower() != ".csv":
        raise MlmError(f"{path}: expected a .csv file of texts and labels with a header")
    with open(path, encoding="utf-8-sig", newline="") as file:
        columns = read_columns(file)
    rows = len(next(iter(columns.values()), []))
    if len(columns) < 2 or rows < 10:
        raise MlmError(
            f"{path}: {len(columns)} columns and {rows} rows. Expected are a header, a column of "
            "texts, one of labels, and at least 10 rows, separated by commas"
        )
    text = max(columns, key=lambda name: sum(map(len, columns[name])))
    candidates = {
        name: task
        for name, values in columns.items()
        if name != text and (task := _task_of(values, rows))
    }
    if not candidates:
        raise MlmError(
            f"{path}: none of the columns {', '.join(map(repr, columns))} has labels: 2 to "
            f"{_CLASSES} classes, each at least twice, or numbers"
        )
    usual = [name for name in ("label", "target", "class", "category") if name in candidates]
    label = usual[0] if usual else min(candidates, key=lambda name: candidates[name])
    data = {"source": "csv", "file": str(path.resolve()), "text_column": text}
    return {
        "enabled": True,
        "task": candidates[label],
        "seeds": 1,
        "epochs": 5,
        "data": {**data, "target_column": label},
    }


def _task_of(values: Sequence[str], rows: int) -> str | None:
    counts = Counter(values)
    if 2 <= len(counts) <= min(_CLASSES, rows // 2) and min(counts.values()) >= 2:
        return "classification"
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return None
    is_counter = len(counts) == rows and all(number.is_integer() for number in numbers)
    return None if is_counter or not all(map(math.isfinite, numbers)) else "regression"


def prompts_from(documents: Sequence[str], count: int = 3) -> list[str]:
    """Short sentences of the text, evenly spread over it, with one word masked."""
    prompts: list[str] = []
    for text in documents[:: max(1, len(documents) // 200)]:
        for sentence in _SENTENCE.findall(text):
            words = sentence.split()
            if 5 <= len(words) <= 12 and len(sentence) < 100 and _MASK not in sentence:
                # The last word but one is long more often than not.
                place = max(range(1, len(words) - 1), key=lambda i: len(words[i]))
                bare = words[place].strip(",;:\"'()«»“”")
                words[place] = words[place].replace(bare, _MASK) if bare else _MASK
                prompts.append(" ".join(words))
                break
    return prompts[:: max(1, len(prompts) // count)][:count] or [_without_spaces(documents)]


def _without_spaces(documents: Sequence[str]) -> str:
    """A prompt from a text whose words have no spaces between them."""
    text = max((line for one in documents for line in one.splitlines()), key=len)[:16]
    return text[:6] + _MASK + text[8:]


def has_spaces(documents: Sequence[str]) -> bool:
    """Whether words have spaces between them: one in 20 characters at least."""
    return sum(text.count(" ") for text in documents) * 20 > sum(map(len, documents))


def first_overlay(
    files: TextFiles, length: int, minutes: float, task: dict[str, Any] | None
) -> tuple[dict[str, Any], Forecast]:
    """The overlay for `minutes` on this machine, and its forecast. MlmError if no run succeeds."""
    share = min(_LARGEST_SHARE, max(0.05, _GROUPS / max(1.0, files.groups)))
    corpus = {"source": "files", **files.settings}
    corpus["files"] = {"train": files.patterns, **files.settings.get("files", {})}
    corpus["held_out"] = {"validation": round(share, 3), "test": round(share, 3)}
    overlay: dict[str, Any] = {
        "corpus": corpus,
        "shards": {"sequence_length": length},
        "model": {"family": "bert"},
        "pretraining": {
            "per_replica_batch_size": max(1, _TOKENS_A_STEP // length),
            "steps": _STEPS_TRIED,
        },
        "evaluation": {"prompts": prompts_from(files.documents)},
    }
    if task:
        overlay["finetune"] = task
    forecast = check(resolve(overlay))
    if forecast.problems:
        raise MlmError(f"This text cannot be trained on as it is:\n{listed(forecast.problems)}")
    *stages, total = forecast.stages
    batch = overlay["pretraining"]["per_replica_batch_size"]
    steps = steps_within(minutes * 60, stages, total, forecast.train_samples / batch)
    overlay["pretraining"]["steps"] = steps
    return overlay, forecast


def steps_within(seconds: float, stages: Sequence[Stage], total: Stage, epoch_steps: float) -> int:
    """Steps that fit into `seconds` beside the other `stages`, from a forecast of _STEPS_TRIED, and
    that make at most _EPOCHS epochs. Raises MlmError if hardly any do."""
    (training,) = [one.seconds or 0.0 for one in stages if one.name.startswith("pretrain")]
    others = (total.seconds or 0.0) - training
    steps = int(_STEPS_TRIED * (seconds * _PLANNED - others) / training)
    if steps < 100:
        raise MlmError(
            f"--minutes {seconds / 60:g}: the stages beside training take about "
            f"{others / 60:.0f} minutes, and 100 steps {training / _STEPS_TRIED * 100 / 60:.1f}. "
            f"Expected at least {math.ceil((others + training / 20) / _PLANNED / 60)}"
        )
    return max(100, min(steps, max(100, int(_EPOCHS * epoch_steps))) // 50 * 50)


def commented(overlay: dict[str, Any], files: TextFiles) -> str:
    """The overlay as YAML with a comment at each choice."""
    comments = {
        "corpus": f"The text: {_in_words(files)}. docs/corpus.md explains sources and filters.",
        "shards": "Tokens that the model reads at a time.",
        "model": "Any of BERT, RoBERTa, ModernBERT …: docs/configuration.md#model.",
        "pretraining": "Longer is better, up to about 30 passes over the text.",
        "evaluation": "Sentences to fill in, each with one mask.",
        "finetune": "A task of your own, trained on after pretraining: docs/finetuning.md.",
    }
    parts = []
    for key, value in overlay.items():
        text = yaml.safe_dump({key: value}, allow_unicode=True, sort_keys=False, width=1000)
        parts.append(f"# {comments[key]}\n{text}")
    return "\n".join(parts)


def _in_words(files: TextFiles) -> str:
    kinds = ", ".join(f"{number} .{kind}" for kind, number in files.kinds.most_common())
    return f"{kinds} of {in_bytes(files.size)}"
