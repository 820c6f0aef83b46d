"""The first configuration of a user's project, from a look at the text and a few timed steps."""

import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from glob import escape, glob
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import yaml

from mlm.check.check import Forecast, check
from mlm.config.corpus import Corpus
from mlm.config.overlays import resolve
from mlm.corpus.bytes_to_text import BYTE_ORDER_MARK, decompressed, table_rows, text_lines
from mlm.corpus.document_formats import documents_of_file
from mlm.corpus.source_files import FORMATS, file_format
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.terminal import in_bytes

#: Files, documents or lines of each, and rows of a table that are looked at; files that are named.
_FILES, _LINES, _ROWS, _NAMED = 20, 2000, 200, 200
#: Groups that a held-out split should have, and its largest share.
_GROUPS, _LARGEST_SHARE = 25, 0.2
#: Tokens in a step, and epochs after which a small model mostly repeats what it has seen.
_TOKENS_A_STEP, _EPOCHS = 4096, 30
#: Share of the minutes that is planned for; machines are not always as idle as now.
_PLANNED = 0.9
_STEPS_TRIED = 2000
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")
#: Usual names of the columns of texts and of labels.
_TEXTS = ("text", "content", "sentence", "document", "excerpt", "body")
_LABELS = ("label", "target", "class", "category")
_MASK = "[MASK]"
_CLASSES = 50


@dataclass
class TextFiles:
    """The text files below a folder: glob `patterns`, the `kinds` of files with their number, what
    was `skipped` by ending, their `size` in bytes, and `settings` of section `corpus` to read them;
    the `documents` looked at, and the number of these or, if files are groups, of the files."""

    patterns: list[str]
    kinds: Counter
    skipped: Counter
    size: int
    settings: dict[str, Any] = field(default_factory=dict)
    groups: int = 0
    documents: list[str] = field(default_factory=list)


def look_at(folder: Path, labels: Path | None = None) -> TextFiles:
    """Look at the files below `folder`, except `labels`. MlmError if none can be read, or their
    columns differ."""
    by_kind, by_pattern, skipped = defaultdict(list), defaultdict(list), Counter()
    for path in sorted(folder.rglob("*")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if is_hidden or not path.is_file() or path.resolve() == labels:
            continue
        try:
            kind, compression = file_format(path.name)
        except MlmError:
            skipped[path.suffix or path.name] += 1
            continue
        by_kind[kind].append(path)
        ending = "".join(path.suffixes[-2 if compression else -1 :])
        by_pattern[f"{escape(str(folder.resolve()))}/**/*{ending}"].append(str(path.absolute()))
    if not by_kind:
        others = ", ".join(f"{number} × {name}" for name, number in skipped.most_common(5))
        raise MlmError(
            f"{folder}: no file that can be read (there are: {others or 'no files'}). Expected are "
            f"{', '.join('.' + name for name in FORMATS)}, plain or compressed; convert others to "
            ".txt first"
        )
    paths = [path for group in by_kind.values() for path in group]
    kinds = Counter({kind: len(group) for kind, group in by_kind.items()})
    patterns = [name for one in sorted(by_pattern) for name in _names(one, by_pattern[one], labels)]
    files = TextFiles(patterns, kinds, skipped, sum(map(os.path.getsize, paths)))
    columns = {text_column(group[0], kind) for kind, group in by_kind.items() if kind != "txt"}
    if len(columns) > 1:
        raise MlmError(
            "The files name their text differently: columns "
            f"{', '.join(map(repr, sorted(columns)))}. Rename them, or put the formats into "
            "folders and write a mix (docs/corpus.md)"
        )
    if columns:
        files.settings["text_column"] = columns.pop()
    if plain := by_kind.get("txt"):
        lines = [line.strip() for path in plain[:_FILES] for line in islice(_lines(path), _LINES)]
        # Blank lines separate paragraphs, or every line is a document.
        apart = sum(not line for line in lines) > 0.05 * len(lines)
        files.settings["files"] = {"document_per": "paragraph" if apart else "line"}
    corpus = Corpus.model_validate({"source": "files", **files.settings})
    for path in paths[:: max(1, len(paths) // _FILES)]:
        files.documents += (d.text for d in islice(documents_of_file(str(path), corpus), _LINES))
    if not any(text.strip() for text in files.documents):
        raise MlmError(f"{paths[0]}: no text in it, nor in the others that were looked at")
    files.groups = len(files.documents)
    if len(paths) >= 2 * _GROUPS:
        files.groups, files.settings["group_per"] = len(paths), "file"
    return files


def _names(pattern: str, files: list[str], labels: Path | None) -> list[str]:
    """The `pattern`, or the `files` one by one if it would match the `labels` too."""
    if not labels or labels not in map(Path.resolve, map(Path, glob(pattern, recursive=True))):
        return [pattern]
    if len(files) > _NAMED:
        texts = f"{len(files):,} texts, too many to name one by one"
        raise MlmError(f"{labels}: {pattern} matches it and {texts}. Move it out of the folder")
    return files


def _lines(path: Path) -> Iterator[str]:
    with open(path, "rb") as file, decompressed(file, file_format(path.name)[1]) as stream:
        for _, line in text_lines(stream, str(path), strict=False):
            yield line.removeprefix(BYTE_ORDER_MARK)


def text_column(path: Path, kind: str) -> str:
    """The column of the text in a table or in JSON lines: one of the usual names, else the one with
    the longest texts."""
    try:
        if kind == "parquet":
            rows = next(pq.ParquetFile(path).iter_batches(_ROWS)).to_pandas()
        elif kind in ("csv", "tsv"):
            table = table_rows(_lines(path), str(path), "\t" if kind == "tsv" else ",")
            header, *cells = [row for _, row in islice(table, 1 + _ROWS)] or [[]]
            objects = [dict(zip(header, row, strict=False)) for row in cells]
            rows = pd.DataFrame(objects, columns=list(dict.fromkeys(header)))
        else:
            objects = [json.loads(line) for line in islice(_lines(path), _ROWS) if line.strip()]
            if not all(isinstance(one, dict) for one in objects):
                raise ValueError("expected an object on each line (jq -c '.[]' FILE makes them)")
            rows = pd.DataFrame(objects)
    except (TypeError, ValueError, StopIteration) as error:
        raise MlmError(f"{path}: its first {_ROWS} rows cannot be read: {error}") from None
    lengths = rows.map(lambda value: len(value) if isinstance(value, str) else 0).sum()
    if not lengths.any():
        raise MlmError(
            f"{path}: no column of text. There are: {', '.join(map(str, lengths.index)) or 'none'}"
        )
    usual = [name for name in _TEXTS if lengths.get(name)]
    return usual[0] if usual else str(lengths.idxmax())


def labelled_task(path: Path) -> dict[str, Any]:
    """Section `finetune` for a CSV file: its text is the column of the longest texts, its label one
    of few values (classes) or of numbers. Raises MlmError if no column is either."""
    try:
        how = {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
        table = pd.read_csv(path, on_bad_lines="skip", **how)
    except (OSError, ValueError) as error:
        raise MlmError(f"{path}: expected a CSV file of texts and labels ({error})") from None
    text = table.map(len).sum().idxmax()
    columns = [name for name in table.columns if name != text]
    tasks = {name: task for name in columns if (task := _task_of(pd.Series(table[name])))}
    if not tasks:
        raise MlmError(
            f"{path}: none of the columns beside {text!r} ({', '.join(map(repr, columns))}) has "
            f"labels: 2 to {_CLASSES} classes, each at least twice, or numbers"
        )
    usual = [name for name in _LABELS if name in tasks]
    label = usual[0] if usual else min(tasks, key=lambda name: tasks[name])
    data = {"source": "csv", "file": str(path.resolve()), "text_column": text}
    data["target_column"] = label
    return {"enabled": True, "task": tasks[label], "epochs": 5, "data": data}


def _task_of(cells: pd.Series) -> str | None:
    counts, numbers = cells.value_counts(), pd.Series(pd.to_numeric(cells, errors="coerce"))
    if 2 <= len(counts) <= min(_CLASSES, len(cells) // 2) and counts.min() >= 2:
        return "classification"
    is_counter = len(counts) == len(cells) and (numbers % 1 == 0).all()
    return None if is_counter or not numbers.map(math.isfinite).all() else "regression"


def prompts_from(documents: Sequence[str], length: int, count: int = 3) -> list[str]:
    """Short sentences with which documents begin, spread over the text, each with a word masked and
    of at most `length` tokens."""
    texts = [" ".join(text[:500].split()) for text in documents[:: 1 + len(documents) // 200]]
    spaced = sum(text.count(" ") for text in texts) * 20 > sum(map(len, texts))
    prompts = [prompt for text in texts if (prompt := _masked(text, spaced, length))]
    return prompts[:: max(1, len(prompts) // count)][:count] or [_MASK]


def _masked(text: str, spaced: bool, length: int) -> str | None:
    """The first sentence, or what begins it, with its longest word masked, without spaces two
    characters of it."""
    sentence, between = _SENTENCE_END.split(text)[0], " " if spaced else ""
    words = (sentence.split() if spaced else re.findall("..?", sentence))[:12]
    # However small the tokens are, with the mask and those around it they are at most `length`.
    while len(between.join(words)) > length - 3:
        words.pop()
    if len(words) < 5 or _MASK in sentence:
        return None
    bare = [re.sub(r"^\W+|\W+$", "", word) for word in words]
    longest = max(range(1, len(words) - 1), key=lambda i: (len(bare[i]), i))
    words[longest] = words[longest].replace(bare[longest], _MASK, 1)
    return between.join(words) if bare[longest] else None


def first_overlay(
    files: TextFiles, length: int, minutes: float, task: dict[str, Any] | None
) -> tuple[dict[str, Any], Forecast, float]:
    """The overlay for `minutes` on this machine, a forecast of its data, and the seconds that it
    takes. MlmError if no run succeeds."""
    share = round(min(_LARGEST_SHARE, max(0.05, _GROUPS / files.groups)), 3)
    batch = max(1, _TOKENS_A_STEP // length)
    overlay: dict[str, Any] = {
        "corpus": {
            "source": "files",
            **files.settings,
            "files": {"train": files.patterns, **files.settings.get("files", {})},
            "held_out": {"validation": share, "test": share},
        },
        "shards": {"sequence_length": length},
        "model": {"family": "bert"},
        "pretraining": {"per_replica_batch_size": batch, "steps": _STEPS_TRIED},
        "evaluation": {"prompts": prompts_from(files.documents, length)},
        **({"finetune": task} if task else {}),
    }
    forecast = check(resolve(overlay))
    if forecast.problems:
        raise MlmError(f"This text cannot be trained on as it is:\n{listed(forecast.problems)}")
    overlay["pretraining"]["steps"], seconds = steps_within(minutes, forecast, batch)
    return overlay, forecast, seconds


def steps_within(minutes: float, forecast: Forecast, batch: int) -> tuple[int, float]:
    """Steps that fit into `minutes` with the other stages of a `forecast` of _STEPS_TRIED: at most
    _EPOCHS epochs, but no fewer than 100 steps, or MlmError; and the seconds of all."""
    *stages, total = forecast.stages
    (training,) = [one.seconds or 0.0 for one in stages if one.name.startswith("pretrain")]
    others = (total.seconds or 0.0) - training
    steps = int(_STEPS_TRIED * (60 * minutes * _PLANNED - others) / training)
    if steps < 100:
        raise MlmError(
            f"--minutes {minutes:g}: the stages beside training take about "
            f"{others / 60:.0f} minutes, and 100 steps {training / _STEPS_TRIED * 100 / 60:.1f}. "
            f"Expected at least {math.ceil((others + training / 20) / _PLANNED / 60)}"
        )
    useful = _EPOCHS * forecast.train_samples // batch
    steps = max(100, min(steps, useful) // 50 * 50)
    return steps, others + steps * training / _STEPS_TRIED


def commented(overlay: dict[str, Any], files: TextFiles) -> str:
    """The overlay as YAML with a comment at each choice."""
    kinds = ", ".join(f"{number} .{kind}" for kind, number in files.kinds.most_common())
    comments = {
        "corpus": f"The text: {kinds} of {in_bytes(files.size)}. See docs/corpus.md.",
        "shards": "Tokens that the model reads at a time.",
        "model": "Any of BERT, RoBERTa, ModernBERT …: docs/configuration.md#model.",
        "pretraining": "Longer is better, up to about 30 passes over the text.",
        "evaluation": "Sentences to fill in, each with one mask.",
        "finetune": "A task of your own, trained on after pretraining: docs/finetuning.md.",
    }
    style = {"allow_unicode": True, "sort_keys": False, "width": 1000}
    sections = {key: yaml.safe_dump({key: value}, **style) for key, value in overlay.items()}
    return "\n".join(f"# {comments[key]}\n{text}" for key, text in sections.items())
