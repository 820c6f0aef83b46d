"""Runs of other working directories that join the report (`report.also`), read only."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mlm.evaluation.artefacts import EvaluationFigures
from mlm.foundations.artefacts import portable
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import HOW_TO_REMAKE, MlmError
from mlm.training.artefacts import Training

#: What is read of each.
OTHER_FILES = {"training": Training, "evaluation": EvaluationFigures}


@dataclass(frozen=True)
class OtherRun:
    """A run called `name` here; `digests` has the sha256 of its files."""

    name: str
    digests: dict[str, str]
    training: Training
    evaluation: EvaluationFigures

    @classmethod
    def read(cls, name: str, directory: str) -> Self:
        """The run in `directory`; MlmError for damaged files and those of another version."""
        files = {stage: Path(directory) / f"{stage}.json" for stage in OTHER_FILES}
        try:
            made = {stage: kind.read(files[stage]) for stage, kind in OTHER_FILES.items()}
        except MlmError as error:
            # Which names a command for this working directory.
            found = str(error).partition(HOW_TO_REMAKE)[0]
            file = portable(files["evaluation"])
            root = str(files["evaluation"]).removesuffix(file) or "."
            raise MlmError(
                f"report.also.{name}: {found}To have the evaluation made again, with the "
                f"configuration of its directory: snakemake --cores 2 --directory {root} "
                f"--configfile FILE --allowed-rules evaluate --force {file}"
            ) from None
        if made["evaluation"].digests["model"] != made["training"].digests.model:
            raise MlmError(
                f"report.also.{name}: {files['evaluation']} is not of the model that "
                f"{files['training']} describes; is the run still under way? Wait for it to end, "
                "then run the same command"
            )
        digests = {f"report.also.{name}: {f.name}": file_sha256(f) for f in files.values()}
        return cls(name, digests, **made)
