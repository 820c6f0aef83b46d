"""The run as it was trained: the configuration's run, if a record of a training agrees with it,
and how far that training came."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mlm.asking.training_inputs import configuration_of, files_there
from mlm.asking.training_records import SHOWING_MODULES, Record, agreeing_records, values_of
from mlm.config.resolution import Settings
from mlm.foundations.code_digests import SCRIPTS, code_digests, training_code
from mlm.foundations.digests import FileMemory, value_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest, project_root
from mlm.tokenizer.encoding import Encoder
from mlm.training.run import Run, RunFiles, read_manifests, run_of

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
class PastRun:
    """The resolved run with its data (`manifests` of the splits that are packed), how far its
    training came, the records of its saved states, and sentences on what is not known."""

    run: Run
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


def past_run(settings: Settings, run: str) -> PastRun:
    """The configuration's `run` with the furthest record of it that it agrees with; MlmError for an
    unknown run, missing results, shards without text, and, naming each difference, if there are
    records and the run agrees with none."""
    if run not in settings["runs"]:
        raise MlmError(f"No run is called {run!r}; there are: {', '.join(settings['runs'])}")
    files = files_there()
    manifests = read_manifests(files, settings["shards"]["sequence_length"])
    config, encoder = configuration_of(settings, run), Encoder.load(files.tokenizer)
    memory = FileMemory(".snakemake/remembered-digests.json")

    @cache
    def resolved(replicas: int) -> Run:
        return run_of(config, files, manifests, replicas, with_model=False, encoder=encoder)

    code = code_digests(SCRIPTS, SHOWING_MODULES, memory)

    def values_now(replicas: int) -> dict[str, Any]:
        return values_of(resolved(replicas), files, code)

    records = agreeing_records(run, config.pretraining.checkpoint.directory, values_now)
    record = records[0] if records else None
    planned = (config.accelerator.virtual_replicas or 1) * (config.accelerator.processes or 1)
    past = resolved(record.replicas if record else planned)
    states = [one for one in records if not one.finished and one.replicas == record.replicas]
    code_known = not record or record.whole_code in (None, value_sha256(training_code(memory)))
    notes = () if states or code_known else (_OTHER_CODE,)
    so_far = TrainingSoFar(
        state="not begun" if not record else "finished" if record.finished else "under way",
        reached=record.reached if record else 0,
        steps=past.steps,
        samples_per_step=past.batch_size,
        samples=past.train.num_samples,
        record=record.file if record else None,
    )
    return PastRun(past, files, manifests, encoder, memory, so_far, tuple(states), notes)
