"""What the report is made from: the JSON artefacts of the stages, read and checked."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlm.accelerators.artefacts import PreflightVerdict
from mlm.asking.artefacts import Asked
from mlm.corpus.artefacts import CorpusSplit
from mlm.evaluation.artefacts import EvaluationFigures, FillMask
from mlm.finetuning.finetuning_metrics import Finetuning
from mlm.foundations.artefacts import portable
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.foundations.typed_artefacts import Artefact
from mlm.samples.artefacts import Preview
from mlm.samples.manifests import Manifest
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.artefacts import Training

#: Columns of training.csv that are the same in every identical run; the speed is not.
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
class RunResults:
    """All that one run left behind; None is what was not asked for.

    `curves` holds a row by logged step, `digests` the sha256 of the files.
    """

    name: str
    overrides: dict
    curves: list[dict[str, float | None]]
    digests: dict[str, str]
    training: Training
    evaluation: EvaluationFigures
    fill_mask: FillMask
    preview: Preview | None = None
    asked: Asked | None = None
    finetune: Finetuning | None = None
    preflight: PreflightVerdict | None = None
    preflight_finetune: PreflightVerdict | None = None

    def artefacts(self) -> list[tuple[str, Artefact]]:
        """Stage and artefact of all that was asked for, in the order of the stages."""
        return [(stage, made) for stage in OF_RUNS if (made := getattr(self, stage)) is not None]


#: A run's artefacts in the order of the stages.
OF_RUNS = {
    "preview": Preview,
    "training": Training,
    "evaluation": EvaluationFigures,
    "fill_mask": FillMask,
    "asked": Asked,
    "finetune": Finetuning,
    "preflight": PreflightVerdict,
    "preflight_finetune": PreflightVerdict,
}


@dataclass(frozen=True)
class Results:
    """Everything that the report shows. `code` is the digest of its own code; `corpus` and
    `tokenizer` are empty for data that came as finished shards; `digests` has the sha256 of the
    files that all runs share."""

    title: str
    sections: list[str]
    config: dict
    code: str
    corpus: dict[str, CorpusSplit]
    tokenizer: TokenizerStatistics | None
    manifests: dict[str, Manifest]
    runs: list[RunResults]
    digests: dict[str, str]

    def code_of_stages(self) -> dict[str, str]:
        """The digest of the code that made each stage's results, as they recorded it themselves;
        each under `stage [run]` if runs differ."""
        made = [("corpus", split, one.made_from.code) for split, one in self.corpus.items()]
        if self.tokenizer:
            made.append(("tokenizer", "", self.tokenizer.made_from.code))
        made += [("manifest", split, one.made_from.code) for split, one in self.manifests.items()]
        for run in self.runs:
            made.append(("pretrain", run.name, run.training.code))
            made += [
                ("evaluate" if stage == "evaluation" else stage, run.name, artefact.made_from.code)
                for stage, artefact in run.artefacts()
                if stage != "training"
            ]
        found: dict[str, dict[str, str]] = {}
        for stage, where, digest in made:
            if digest is not None:
                found.setdefault(stage, {})[where] = digest
        return {
            stage if len(set(digests.values())) == 1 else f"{stage} [{where}]": digest
            for stage, digests in found.items()
            for where, digest in digests.items()
        } | {"report": self.code}


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


def read_run(name: str, overrides: dict, files: Mapping[str, str]) -> RunResults:
    """The results of run `name`. `files` has the paths of `curves` and of the stages in OF_RUNS,
    of which preview, asked, finetune and the preflights may be left out.

    Raises MlmError where an artefact belongs to another run, or cannot be read.
    """
    made, digests = {}, {}
    for stage, kind in OF_RUNS.items():
        if (path := files.get(stage)) is not None:
            made[stage] = kind.read(path)
            digests[portable(path)] = file_sha256(path)
            # The preflight of a fine-tuning says so after the run's name.
            if (found := made[stage].run.partition(",")[0]) != name:
                raise MlmError(f"{path}: belongs to the run {found!r}, expected {name!r}")
    return RunResults(name, overrides, read_curves(files["curves"]), digests, **made)


def read_shared(files: Mapping[str, Sequence[str]]) -> dict:
    """`corpus`, `tokenizer`, `manifests` and `digests` of Results, from the paths of each kind.

    Raises MlmError where one cannot be read.
    """
    paths = [path for kind in ("corpus", "tokenizer", "manifests") for path in files[kind]]
    return {
        "corpus": {found.split: found for found in map(CorpusSplit.read, files["corpus"])},
        "tokenizer": next(map(TokenizerStatistics.read, files["tokenizer"]), None),
        "manifests": {found.split: found for found in map(Manifest.read, files["manifests"])},
        "digests": {portable(path): file_sha256(path) for path in paths},
    }


def _number(cell: str | None) -> float | None:
    if cell is None or not cell.strip():
        return None
    number = float(cell)
    return number if math.isfinite(number) else None
