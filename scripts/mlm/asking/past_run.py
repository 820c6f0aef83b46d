"""The run as it was trained: the configuration's run, if a record of a training agrees with it,
and how far that training came."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mlm.asking.training_records import RESULTS, Record, agreeing_records, values_of
from mlm.config.configuration import Configuration, trainings
from mlm.config.pretraining import Operation
from mlm.foundations.digests import FileMemory
from mlm.foundations.errors import SAME_COMMAND, MlmError
from mlm.samples.manifests import Manifest, project_root
from mlm.tokenizer.encoding import Encoder
from mlm.training.run import Run, RunFiles, read_manifests, run_of
from mlm.training.states import marker_or_fault

_OTHER_CODE = (
    "The code was edited since the training, and no saved state is left that says where: this is "
    "what the code of today would show."
)


@dataclass(frozen=True)
class TrainingSoFar:
    """How far the training is known to be: `reached` of `steps` updates, by the file `record`; one
    that stopped is "under way", as far as its last saved state."""

    state: Literal["finished", "under way", "not begun"]
    reached: int
    steps: int
    samples_per_step: int
    samples: int
    record: str | None


@dataclass(frozen=True)
class SavedState:
    """The state of `run` after `step` updates, as `pretraining.continue_from` names it."""

    run: str
    step: int


@dataclass(frozen=True)
class PastRun:
    """The resolved run with its data (`manifests` of the splits that are packed), how far its
    training came, the records of its saved states, newest first, and sentences on what is not
    known."""

    run: Run
    operation: Operation
    files: RunFiles
    manifests: dict[str, Manifest]
    encoder: Encoder
    memory: FileMemory
    so_far: TrainingSoFar
    states: tuple[Record, ...]
    notes: tuple[str, ...]

    def root(self, split: str) -> Path:
        """The directory that the paths of the split's manifest are relative to."""
        return project_root(self.files.manifests[split])

    def last_state_before(self, step: int) -> SavedState | None:
        """The last state before update `step` that a training can continue from: whole, and
        computed by the code of today."""
        for state in self.states:
            early = 0 < state.reached < step and state.of_todays_code(self.memory)
            if early and marker_or_fault(state.file)[1] is None:
                return SavedState(self.run.name, state.reached)
        start = self.operation.continue_from
        begun = SavedState(start.run, start.step)
        if begun.run is None or begun.step >= step:
            return None
        places = Path(self.operation.checkpoint.directory, begun.run).glob(
            f"*/step-{begun.step:08d}"
        )
        return begun if any(places) else None


def past_run(settings: Configuration, run: str) -> PastRun:
    """The configuration's `run` with the furthest record of it that it agrees with; MlmError for an
    unknown run, missing results, shards without text, and, naming each difference, if there are
    records and the run agrees with none."""
    if run not in settings.runs:
        raise MlmError(f"No run is called {run!r}; there are: {', '.join(settings.runs)}")
    files = _files_of_training()
    manifests = read_manifests(files, settings.shards.sequence_length)
    config, encoder = trainings(settings)[run], Encoder.load(files.tokenizer)
    memory = FileMemory(".snakemake/remembered-digests.json")

    @cache
    def resolved(replicas: int) -> Run:
        return run_of(config, files, manifests, replicas, with_model=False, encoder=encoder)

    def values_now(replicas: int) -> dict[str, Any]:
        return values_of(resolved(replicas), files, memory)

    records = agreeing_records(run, config.operation.checkpoint.directory, values_now)
    record = records[0] if records else None
    planned = (config.accelerator.virtual_replicas or 1) * (config.accelerator.processes or 1)
    past = resolved(record.replicas if record else planned)
    states = [one for one in records if not one.finished and one.replicas == record.replicas]
    code_known = not record or states or record.of_todays_code(memory)
    so_far = TrainingSoFar(
        state="not begun" if not record else "finished" if record.finished else "under way",
        reached=record.reached if record else 0,
        steps=past.steps,
        samples_per_step=past.batch_size,
        samples=past.train.num_samples,
        record=record.file if record else None,
    )
    notes = () if code_known else (_OTHER_CODE,)
    return PastRun(
        *(past, config.operation, files, manifests, encoder, memory, so_far, tuple(states), notes)
    )


def _files_of_training() -> RunFiles:
    """What a training reads, in the places where its stages write, with the test split's manifest
    if it is there; MlmError if one of the others is missing."""
    tokenizer, manifests = RESULTS / "tokenizer" / "tokenizer.json", {}
    for split in ("train", "validation", "test"):
        manifests[split] = RESULTS / "manifests" / f"{split}.json"
    if not manifests["test"].exists():
        del manifests["test"]
    if missing := [str(f) for f in (tokenizer, *manifests.values()) if not f.exists()]:
        raise MlmError(
            f"{', '.join(missing)}: not there yet, so that nothing is known of what a training "
            f"is shown. To have it made: {SAME_COMMAND} {' '.join(missing)}"
        )
    return RunFiles(str(tokenizer), {split: str(path) for split, path in manifests.items()})
