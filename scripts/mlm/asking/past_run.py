"""The run as it was trained: the configuration's run, if a record of a training agrees with it,
and how far that training came. Records are its training.json and the first lines of its states.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mlm.config.configuration import Configuration, trainings
from mlm.config.pretraining import Operation
from mlm.foundations.code_digests import SCRIPTS, code_digests, training_code
from mlm.foundations.digests import differences, file_sha256, value_sha256
from mlm.foundations.errors import SAME_COMMAND, MlmError, listed
from mlm.samples.manifests import Manifest, project_root
from mlm.tokenizer.encoding import Encoder
from mlm.training.artefacts import Training
from mlm.training.resolved_run import Run, RunFiles, read_manifests, run_of

RESULTS = Path("results")
#: The modules that decide what a step is shown. A saved state names them with their digests.
SHOWING_MODULES = ("mlm.samples.masking", "mlm.samples.sample_order", "mlm.samples.batch_order")
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
class Record:
    """What a file says of a training: updates made, replicas, the values that its batches follow
    from, and, if it has ended, the digest of the code that trained."""

    file: str
    finished: bool
    reached: int
    replicas: int
    values: dict[str, Any]
    code: str | None = None


@dataclass(frozen=True)
class PastRun:
    """The resolved run with its data (`manifests` of the packed splits), how far its training came,
    and sentences on what is not known."""

    run: Run
    operation: Operation
    files: RunFiles
    manifests: dict[str, Manifest]
    encoder: Encoder
    so_far: TrainingSoFar
    notes: tuple[str, ...]

    def root(self, split: str) -> Path:
        """Return the directory that the paths of the split's manifest are relative to."""
        return project_root(self.files.manifests[split])


def past_run(settings: Configuration, run: str) -> PastRun:
    """Return the configuration's `run` with the furthest record of it that it agrees with; MlmError
    for missing results and, naming each difference, if there are records and the run agrees with
    none."""
    files = _files_of_training()
    manifests = read_manifests(files, settings.shards.sequence_length)
    config, encoder = trainings(settings)[run], Encoder.load(files.tokenizer)

    @cache
    def resolved(replicas: int) -> Run:
        return run_of(config, files, manifests, replicas, with_model=False, encoder=encoder)

    agreeing, refusals = [], []
    for record in _records(run, config.operation.checkpoint.directory):
        now = _values_of(resolved(record.replicas), files)
        different = differences(record.values, {name: now[name] for name in record.values})
        if different:
            refusals.append(
                f"{record.file}: run {run} was trained with other values than those of "
                f"now:\n{listed(different)}\nAsk with the configuration, the code and the results "
                f"that it was trained with, or train it again: {SAME_COMMAND}"
            )
        else:
            agreeing.append(record)
    if refusals and not agreeing:
        raise MlmError(refusals[0])
    record = agreeing[0] if agreeing else None
    planned = (config.accelerator.virtual_replicas or 1) * (config.accelerator.processes or 1)
    past = resolved(record.replicas if record else planned)
    # A saved state has the digests of the modules that decide what a step is shown.
    edited = (
        record is not None
        and all(r.finished for r in agreeing)
        and record.code not in (None, value_sha256(training_code()))
    )
    so_far = TrainingSoFar(
        state="not begun" if not record else "finished" if record.finished else "under way",
        reached=record.reached if record else 0,
        steps=past.steps,
        samples_per_step=past.batch_size,
        samples=past.train.num_samples,
        record=record.file if record else None,
    )
    return PastRun(
        run=past,
        operation=config.operation,
        files=files,
        manifests=manifests,
        encoder=encoder,
        so_far=so_far,
        notes=(_OTHER_CODE,) if edited else (),
    )


def _files_of_training() -> RunFiles:
    """Return what a training reads, with the test split's manifest if it is there; MlmError if one
    of the others is missing."""
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


def _records(run: str, states: str) -> Iterator[Record]:
    """Yield the record of the training if it has ended, and those of its states in the directory
    `states`, the last first. A bucket's are not looked at."""
    file = RESULTS / "runs" / run / "training.json"
    if file.exists():
        trained = Training.read(file)
        slots = {"fixed_slots": trained.masking["slots"]}
        masking = trained.masking | slots | {"sequence_length": trained.sequence_length}
        digests = {"tokenizer": trained.digests.tokenizer, "manifests": trained.digests.manifests}
        phases = trained.phases and [[*vars(phase).values()] for phase in trained.phases]
        values = _values(vars(trained) | {"masking": masking, "phases": phases}, **digests)
        yield Record(str(file), True, trained.steps, trained.replicas, values, trained.code)
    records = []
    for state in Path(states, run).glob("*/step-*.state") if "://" not in states else ():
        try:
            with state.open("rb") as file_of_state:
                basis = json.loads(file_of_state.readline())["basis"]
            digests = {"tokenizer": basis["tokenizer"], "manifests": basis["manifests"]}
            code, replicas = basis["code"], basis["device"]["replicas"]
            values = _values(basis["settings"], **digests, code=_showing(code))
            step = int(state.stem.removeprefix("step-"))
            records.append(Record(str(state), False, step, replicas, values))
        except (ValueError, KeyError, TypeError):
            continue  # damaged, or of an earlier version: training skips it as well
    yield from sorted(records, key=lambda record: (-record.reached, record.file))


def _values_of(run: Run, files: RunFiles) -> dict[str, Any]:
    """Return the values of a record that `run`, its `files` and the code would have now."""
    settings = run.pretraining.model_dump() | {
        "masking": vars(run.plan),
        "phases": run.pretraining.phases and [phase.values for phase in run.phases],
        "initialisation": run.model.initialisation.model_dump(),
    }
    manifests = {split: file_sha256(files.manifests[split]) for split in ("train", "validation")}
    code = _showing(code_digests(SCRIPTS, SHOWING_MODULES))
    return _values(settings, tokenizer=file_sha256(files.tokenizer), manifests=manifests, code=code)


def _values(settings: dict, **data: Any) -> dict[str, Any]:
    """Return the values that the batches of a run follow from, by the names that messages give
    them; `settings` are in the form of a saved state's."""
    masking, accumulated = settings["masking"], "gradient_accumulation_steps"
    sizes = ("seed", "steps", "phases", "per_replica_batch_size", "shuffle_window")
    shares = ("mlm_probability", "mask_token", "random_token", "whole_word", "fixed_slots")
    return {
        **{f"pretraining.{name}": settings[name] for name in sizes},
        **{f"pretraining.masking.{name}": masking[name] for name in shares},
        f"pretraining.optimizer.{accumulated}": settings["optimizer"][accumulated],
        "shards.sequence_length": masking["sequence_length"],
        # Counts of the train split show it as well, before the first step.
        "model.initialisation": settings["initialisation"],
        **data,
    }


def _showing(digests: dict[str, str]) -> dict[str, str | None]:
    return {name: digests.get(name) for name in SHOWING_MODULES}
