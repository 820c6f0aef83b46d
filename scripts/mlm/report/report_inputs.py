"""What the report is made from: the JSON artefacts of the stages, read and checked."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlm.corpus.artefacts import CorpusSplit
from mlm.evaluation.artefacts import EvaluationFigures, FillMask
from mlm.finetuning.score_comparison import Finetuning
from mlm.foundations.artefacts import Artefact, portable
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import HOW_TO_REMAKE, MlmError
from mlm.preflight.artefacts import PreflightVerdict
from mlm.samples.manifests import Manifest
from mlm.samples.preview import Preview
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.artefacts import Training

#: Columns of training.csv that are the same in every identical run; the speed is not.
CURVE_COLUMNS = (
    *("step", "epoch", "loss", "accuracy"),
    *("validation_loss", "validation_accuracy", "learning_rate"),
)
#: The artefacts of a run by stage, in order; those of another directory's run come first.
OF_RUNS = ("training", "evaluation", "fill_mask", "preview", "finetune", "preflight")
OF_OTHER_RUNS = OF_RUNS[:2]


@dataclass(frozen=True, kw_only=True)
class EvaluatedRun:
    """What is read of every run, also of another directory; `digests`: the sha256 of the files."""

    name: str
    digests: dict[str, str]
    training: Training
    evaluation: EvaluationFigures


@dataclass(frozen=True, kw_only=True)
class RunResults(EvaluatedRun):
    """The results of a run; None is what was not made. `curves` holds a row by logged step."""

    overrides: dict
    curves: list[dict[str, float | None]]
    fill_mask: FillMask
    preview: Preview | None = None
    finetune: Finetuning | None = None
    preflight: PreflightVerdict | None = None

    def artefacts(self) -> dict[str, Artefact]:
        """Artefacts by stage, in the order of OF_RUNS."""
        return {stage: made for stage in OF_RUNS if (made := getattr(self, stage)) is not None}

    def curve(self, column: str) -> tuple[list[float], list[float]]:
        """Steps and values of the rows of training.csv in which `column` has a value."""
        rows = [(row["step"] or 0, row[column]) for row in self.curves]
        known = [(step, value) for step, value in rows if value is not None]
        return [step for step, _ in known], [value for _, value in known]


@dataclass(frozen=True)
class Results:
    """Everything that the report shows. `code` is the digest of its own code; `digests` has the
    sha256 of the files that all runs share; `also` are the runs of other directories."""

    title: str
    config: dict
    code: str
    corpus: dict[str, CorpusSplit]
    tokenizer: TokenizerStatistics
    manifests: dict[str, Manifest]
    runs: list[RunResults]
    digests: dict[str, str]
    also: list[EvaluatedRun] = field(default_factory=list)

    def code_of_stages(self) -> dict[str, str]:
        """The digests of the code that made each stage's results, as they recorded it themselves;
        several if it was edited between runs."""
        made: dict[str, list[Artefact]] = {"corpus": [*self.corpus.values()]}
        made |= {"tokenizer": [self.tokenizer], "manifest": [*self.manifests.values()]}
        for run in self.runs:
            for stage, artefact in run.artefacts().items():
                made.setdefault(stage, []).append(artefact)
        codes = {stage: {one.made_from.code for one in of} for stage, of in made.items()}
        # The record in training.json is that of its copy.
        codes["training"] = {run.training.code for run in self.runs}
        shown = {stage: ", ".join(sorted(filter(None, of))) for stage, of in codes.items()}
        return shown | {"report": self.code}

    def digests_of_files(self, most: int | None = None) -> dict[str, str]:
        """The sha256 of every artefact by name: those read here, and those that they vouch for.

        Of each split's shards the first `most` (None: all).
        """
        files = [file for split in self.corpus.values() for file in split.files[:most]]
        rows = {f"results/corpus/{file.name}": file.sha256 for file in files}
        rows["results/tokenizer/tokenizer.json"] = self.manifests["train"].tokenizer_sha256
        rows |= self.digests
        for manifest in self.manifests.values():
            rows |= {shard.path: shard.sha256 for shard in manifest.shards[:most]}
        for run in self.runs:
            weights = f"results/runs/{run.training.run}/model/model.safetensors"
            rows |= {weights: run.training.digests.model} | run.digests
        for other in self.also:
            rows |= other.digests
        return rows


def read_shared(files: Mapping[str, Sequence[str]]) -> dict:
    """`corpus`, `tokenizer`, `manifests` and `digests` of Results, from the paths of each kind."""
    paths = [path for kind in ("corpus", "tokenizer", "manifests") for path in files[kind]]
    return {
        "corpus": {made.split: made for made in map(CorpusSplit.read, files["corpus"])},
        "tokenizer": TokenizerStatistics.read(*files["tokenizer"]),
        "manifests": {made.split: made for made in map(Manifest.read, files["manifests"])},
        "digests": {portable(path): file_sha256(path) for path in paths},
    }


def read_run(name: str, overrides: dict, files: Mapping[str, str]) -> RunResults:
    """The results of run `name`. `files` has the paths of `curves` and of the stages in OF_RUNS,
    of which preview, finetune and preflight may be left out."""
    paths = {stage: files.get(stage) for stage in OF_RUNS}
    return RunResults(
        name=name,
        digests={portable(path): file_sha256(path) for path in paths.values() if path},
        training=Training.read(files["training"]),
        evaluation=EvaluationFigures.read(files["evaluation"]),
        overrides=overrides,
        curves=_read_curves(files["curves"]),
        fill_mask=FillMask.read(files["fill_mask"]),
        preview=Preview.read(path) if (path := paths["preview"]) else None,
        finetune=Finetuning.read(path) if (path := paths["finetune"]) else None,
        preflight=PreflightVerdict.read(path) if (path := paths["preflight"]) else None,
    )


def _read_curves(path: str | Path) -> list[dict[str, float | None]]:
    """Rows of a training.csv, columns CURVE_COLUMNS; None for an empty or non-finite cell."""

    def number(cell: str) -> float | None:
        return value if math.isfinite(value := float(cell or "nan")) else None

    with open(path, encoding="utf-8", newline="") as handle:
        return [{c: number(row[c]) for c in CURVE_COLUMNS} for row in csv.DictReader(handle)]


def read_other_run(name: str, directory: str) -> EvaluatedRun:
    """The run in another `directory`, which `report.also` calls `name`; MlmError if it is unfit."""
    files = [Path(directory) / f"{stage}.json" for stage in OF_OTHER_RUNS]
    try:
        training, evaluation = Training.read(files[0]), EvaluationFigures.read(files[1])
    except MlmError as error:
        # Which names a command for this working directory.
        problem = str(error).partition(HOW_TO_REMAKE)[0]
        file = portable(files[1])
        root = str(files[1]).removesuffix(file) or "."
        raise MlmError(
            f"report.also.{name}: {problem}To have the evaluation made again, with the "
            f"configuration of its directory: snakemake --cores 2 --directory {root} "
            f"--configfile FILE --allowed-rules evaluate --force {file}"
        ) from None
    if evaluation.digests["model"] != training.digests.model:
        raise MlmError(
            f"report.also.{name}: {files[1]} is not of the model that {files[0]} describes; is the "
            "run still under way? Wait for it to end, then run the same command"
        )
    digests = {f"report.also.{name}: {file.name}": file_sha256(file) for file in files}
    return EvaluatedRun(name=name, digests=digests, training=training, evaluation=evaluation)
