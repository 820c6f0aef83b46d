"""What the report is made from: the JSON artefacts of the stages, read and checked."""

import csv
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, remedy
from mlm.results import artefacts

#: The version of every artefact's format that this report can read.
FORMAT_VERSION = 1

_SURROGATE = re.compile("[\ud800-\udfff]")

#: Keys without which an artefact says too little to be reported.
REQUIRED_KEYS = {
    "corpus": ("split", "source", "documents", "bytes"),
    "tokenizer": ("kind", "vocabulary_size", "splits"),
    "manifest": ("split", "num_samples", "num_tokens", "num_padding", "shards"),
    "training": ("run", "steps", "parameters", "model_type", "final", "digests"),
    "evaluation": ("run", "test", "baselines", "verdicts"),
    "fill_mask": ("run", "prompts"),
    "preview": ("run", "samples"),
}

#: Columns of training.csv that are the same in every identical run. The speed is not.
CURVE_COLUMNS = (
    "step",
    "epoch",
    "loss",
    "accuracy",
    "validation_loss",
    "validation_accuracy",
    "learning_rate",
)


@dataclass(frozen=True)
class Artefact:
    """One JSON artefact: its content, and the sha256 of its file under a portable name."""

    name: str
    sha256: str
    content: dict


@dataclass(frozen=True)
class RunResults:
    """All that one run left behind. `curves` holds a row by logged step, None where empty."""

    name: str
    overrides: dict
    training: Artefact
    evaluation: Artefact
    fill_mask: Artefact
    preview: Artefact | None
    curves: list[dict[str, float | None]]
    #: Artefacts of stages that run only when asked, by stage: preflight, finetune.
    extras: dict[str, Artefact] = field(default_factory=dict)

    def artefacts(self) -> list[Artefact]:
        """The run's JSON artefacts in the order of the stages."""
        stages = [self.preview, self.training, self.evaluation, self.fill_mask]
        stages += [self.extras[k] for k in sorted(self.extras)]
        return [a for a in stages if a is not None]


@dataclass(frozen=True)
class Results:
    """Everything that the report shows. `corpus` and `tokenizer` are empty for data that
    came as finished shards. `cost` has a row by job when it was asked for."""

    title: str
    sections: list[str]
    config: dict
    code: dict[str, str]
    corpus: dict[str, Artefact]
    tokenizer: Artefact | None
    manifests: dict[str, Artefact]
    runs: list[RunResults]
    cost: list[dict] = field(default_factory=list)
    #: Tokens per second by run, with `cost`.
    speed: dict[str, float | None] = field(default_factory=dict)


def read_artefact(path: str | Path, kind: str, name: str | None = None) -> Artefact:
    """The artefact in the JSON file `path`, known to the report as `name`.

    Raises MlmError where the file is damaged, has another format version, or lacks a key.
    """
    path = Path(path)
    content = artefacts.read_artefact(path)
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise MlmError(
            f"{path}: format version {FORMAT_VERSION} was expected, found "
            f"{'none' if version is None else version}; another version of the workflow wrote "
            f"it. {remedy(path)}"
        )
    missing = [key for key in REQUIRED_KEYS.get(kind, ()) if key not in content]
    if missing:
        raise MlmError(f"{path}: {', '.join(missing)} missing in this {kind} file. {remedy(path)}")
    return Artefact(name or path.as_posix(), file_sha256(path), storable(content))


def read_curves(path: str | Path) -> list[dict[str, float | None]]:
    """Rows of a training.csv, columns CURVE_COLUMNS; None for an empty or non-finite cell.

    Raises MlmError where a column is missing or a cell is not a number.
    """
    with open(path, encoding="utf-8", newline="") as handle:
        reader = csv.DictReader(handle)
        missing = [c for c in CURVE_COLUMNS if c not in (reader.fieldnames or [])]
        if missing:
            raise MlmError(
                f"{path}: column {', '.join(missing)} missing; found: "
                f"{', '.join(reader.fieldnames or []) or 'an empty file'}"
            )
        try:
            return [{c: _number(row[c]) for c in CURVE_COLUMNS} for row in reader]
        except ValueError as error:
            raise MlmError(f"{path}, line {reader.line_num}: {error}") from error


def read_speed(path: str | Path) -> float | None:
    """The median tokens per second of a training.csv: never the same twice."""
    with open(path, encoding="utf-8", newline="") as handle:
        speeds = [_benchmark_number(row.get("tokens_per_second")) for row in csv.DictReader(handle)]
    known = [s for s in speeds if s is not None]
    return statistics.median(known) if known else None


def read_run(
    name: str, overrides: dict, files: Mapping[str, str], extras: Mapping[str, str] | None = None
) -> RunResults:
    """The results of run `name`. `files` has the path of training, evaluation, fill_mask,
    curves and, where it was made, preview; `extras` those of optional stages.

    Raises MlmError where an artefact belongs to another run, or cannot be read.
    """

    def read(kind: str, path: str) -> Artefact:
        artefact = read_artefact(path, kind, f"results/runs/{name}/{kind}.json")
        found = artefact.content.get("run", name)
        if found != name:
            raise MlmError(f"{path}: belongs to the run {found!r}, expected {name!r}")
        return artefact

    stages = {k: read(k, files[k]) for k in ("training", "evaluation", "fill_mask")}
    return RunResults(
        name=name,
        overrides=overrides,
        preview=read("preview", files["preview"]) if "preview" in files else None,
        curves=read_curves(files["curves"]),
        extras={k: read(k, path) for k, path in sorted((extras or {}).items())},
        **stages,
    )


def read_splits(kind: str, folder: str, paths: Sequence[str]) -> dict[str, Artefact]:
    """Artefacts of `kind` by split, in the order of `paths`, named under `folder`."""
    found = {}
    for path in paths:
        artefact = read_artefact(path, kind)
        split = artefact.content["split"]
        found[split] = Artefact(f"{folder}/{split}.json", artefact.sha256, artefact.content)
    return found


def code_of_stages(
    corpus: Mapping[str, Artefact],
    tokenizer: Artefact | None,
    manifests: Mapping[str, Artefact],
    runs: Sequence[RunResults],
) -> dict[str, str]:
    """The digest of the code that made each stage's results, as they recorded it themselves.

    Where runs differ, each under `stage [run]`.
    """
    found: dict[str, dict[str, str]] = {}

    def add(stage: str, where: str, digest: str | None) -> None:
        if digest is not None:
            found.setdefault(stage, {})[where] = digest

    shared = {"corpus": corpus, "tokenizer": {"": tokenizer}, "manifest": manifests}
    for stage, made in shared.items():
        for where, artefact in made.items():
            if artefact is not None:
                add(stage, where, artefacts.made_from(artefact.content).code)
    for run in runs:
        add("pretrain", run.name, run.training.content.get("code"))
        stages = {"preview": run.preview, "evaluate": run.evaluation, "fill_mask": run.fill_mask}
        for stage, artefact in (stages | run.extras).items():
            if artefact is not None:
                add(stage, run.name, artefacts.made_from(artefact.content).code)
    return {
        stage if len(set(digests.values())) == 1 else f"{stage} [{where}]": digest
        for stage, digests in found.items()
        for where, digest in digests.items()
    }


def read_benchmarks(folder: str | Path, note: Callable[[str], None] = print) -> list[dict]:
    """Time and memory of every job that left a benchmark below `folder`, sorted by its path.

    Each row has `job`, `seconds`, `max_rss` (MiB) and `cpu` (seconds), None where unknown.
    """
    rows = []
    for path in sorted(Path(folder).rglob("*.tsv")):
        with open(path, encoding="utf-8", newline="") as handle:
            measured = list(csv.DictReader(handle, delimiter="\t"))
        if not measured:
            note(f"{path}: no measurement in it; left out")
            continue
        last = measured[-1]
        rows.append(
            {
                "job": path.relative_to(folder).with_suffix("").as_posix(),
                "seconds": _benchmark_number(last.get("s")),
                "max_rss": _benchmark_number(last.get("max_rss")),
                "cpu": _benchmark_number(last.get("cpu_time")),
            }
        )
    return rows


def _benchmark_number(cell: str | None) -> float | None:
    try:
        return _number(cell)
    except ValueError:
        return None


def _number(cell: str | None) -> float | None:
    if cell is None or not cell.strip():
        return None
    number = float(cell)
    return number if math.isfinite(number) else None


def storable(value: Any) -> Any:
    """`value` as JSON and UTF-8 can hold it.

    NaN and infinities become None: the figure is not there. Lone surrogates, which a YAML or
    JSON escape can write, become U+FFFD.
    """
    if isinstance(value, dict):
        return {storable(k): storable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [storable(v) for v in value]
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
