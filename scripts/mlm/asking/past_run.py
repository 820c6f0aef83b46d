"""The run as it was trained: which record says so, how far it came, and what differs from it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mlm.config.resolution import RunConfiguration, Settings
from mlm.foundations.code_digests import SCRIPTS, code_digests, training_code
from mlm.foundations.digests import FileMemory, differences, file_sha256, value_sha256
from mlm.foundations.errors import SAME_COMMAND, MlmError, listed
from mlm.samples.artefacts import HolesOfRun
from mlm.samples.manifests import Manifest, shards_root
from mlm.tokenizer.encoding import Encoder
from mlm.training.artefacts import Training
from mlm.training.run import Run, RunFiles, read_manifests, run_of

RESULTS = Path("results")
#: The modules that decide what a step is shown. A saved state names them with their digests.
SHOWING_MODULES = (
    "mlm.samples.masking",
    "mlm.samples.shuffling",
    "mlm.samples.stored_batches",
)
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
    from, and the digest of all code that trained, if it has it."""

    file: str
    finished: bool
    reached: int
    replicas: int
    values: dict[str, Any]
    whole_code: str | None = None


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
        return shards_root(self.manifests[split], self.files.manifests[split])


def files_of_training() -> RunFiles:
    """What a training reads, in the places where its stages write."""
    manifests = {s: str(RESULTS / "manifests" / f"{s}.json") for s in ("train", "validation")}
    return RunFiles(str(RESULTS / "tokenizer" / "tokenizer.json"), manifests)


def configuration_of(settings: Settings, run: str) -> RunConfiguration:
    """What the configuration says of the training of `run`; MlmError unless the file of what it
    leaves out fits."""
    own = RunConfiguration.of(settings, run)
    parent, forget = own.pretraining.continue_from.run, own.pretraining.forget
    holes = RESULTS / "holes" / f"{run}.json"
    made_for = [o.what for o in HolesOfRun.read(holes).forget] if forget and holes.exists() else []
    if made_for != forget:
        found = f"was made from {made_for}" if made_for else "is not there yet"
        raise MlmError(
            f"{holes}: {found}, and pretraining.forget of run {run} is {forget}. Ask with the list "
            f"that it was trained with, or have it made: {SAME_COMMAND} {holes}"
        )
    return own.with_values(
        parent=configuration_of(settings, parent) if parent else None,
        holes=str(holes) if forget else None,
    )


def past_run(settings: Settings, run: str) -> PastRun:
    """The configuration's `run` with the furthest record of it that it agrees with; MlmError for an
    unknown run, missing results, shards without text, and, naming each difference, if there are
    records and the run agrees with none."""
    if run not in settings["runs"]:
        raise MlmError(f"No run is called {run!r}; there are: {', '.join(settings['runs'])}")
    files, test = files_of_training(), RESULTS / "manifests" / "test.json"
    if missing := [f for f in (files.tokenizer, *files.manifests.values()) if not Path(f).exists()]:
        raise MlmError(
            f"{', '.join(missing)}: not there yet, so that nothing is known of what a training "
            f"is shown. To have it made: {SAME_COMMAND} {' '.join(missing)}"
        )
    if test.exists():
        files = replace(files, manifests=files.manifests | {"test": str(test)})
    manifests = read_manifests(files, settings["shards"]["sequence_length"])
    if manifests["train"].corpus_sha256 is None:
        raise MlmError(
            f"{files.manifests['train']}: its shards came without text (shards.source: prebuilt), "
            "so that no sentence or document can be found in them"
        )
    config, encoder = configuration_of(settings, run), Encoder.load(files.tokenizer)
    memory = FileMemory(".snakemake/remembered-digests.json")

    @cache
    def resolved(replicas: int) -> Run:
        return run_of(config, files, manifests, replicas, with_model=False, encoder=encoder)

    code = _named_code(code_digests(SCRIPTS, SHOWING_MODULES, memory))
    agreeing, refused = [], []
    for record in _records(run, config.pretraining.checkpoint.directory):
        now = _values_now(resolved(record.replicas), files) | {"code": code}
        found = differences(record.values, {name: now[name] for name in record.values})
        if found:
            refused.append((record, found))
        else:
            agreeing.append(record)
    if refused and not agreeing:
        record, found = refused[0]
        raise MlmError(
            f"{record.file}: run {run} was trained with something else than it is asked about "
            f"with:\n{listed(found)}\nAsk with the configuration, the code and the results that it "
            f"was trained with, or train it again: {SAME_COMMAND}"
        )
    record = agreeing[0] if agreeing else None
    planned = (config.accelerator.virtual_replicas or 1) * (config.accelerator.processes or 1)
    past = resolved(record.replicas if record else planned)
    states = [one for one in agreeing if not one.finished and one.replicas == record.replicas]
    code_known = not record or record.whole_code in (None, value_sha256(training_code(memory)))
    so_far = TrainingSoFar(
        state="not begun" if not record else "finished" if record.finished else "under way",
        reached=record.reached if record else 0,
        steps=past.steps,
        samples_per_step=past.batch_size,
        samples=past.train.num_samples,
        record=record.file if record else None,
    )
    notes = () if states or code_known else (_OTHER_CODE,)
    return PastRun(past, files, manifests, encoder, memory, so_far, tuple(states), notes)


def _values(settings: dict, **data: Any) -> dict[str, Any]:
    """The values that the batches of a run follow from, by the names that messages give them;
    `settings` are in the form of a saved state's."""
    masking, optimizer = settings["masking"], settings["optimizer"]
    sizes = ("seed", "steps", "per_replica_batch_size", "shuffle_window")
    shares = ("mlm_probability", "mask_token", "random_token", "whole_word", "fixed_slots")
    return {
        **{f"pretraining.{name}": settings[name] for name in sizes},
        **{f"pretraining.masking.{name}": masking[name] for name in shares},
        "pretraining.optimizer.gradient_accumulation_steps": optimizer[
            "gradient_accumulation_steps"
        ],
        "shards.sequence_length": masking["sequence_length"],
        # Counts of the train split show it as well, before the first step.
        "model.initialisation": settings["initialisation"],
        "holes": settings.get("holes"),
        **data,
    }


def _values_now(run: Run, files: RunFiles) -> dict[str, Any]:
    settings = run.pretraining.model_dump() | {
        "masking": vars(run.plan),
        "initialisation": run.model.initialisation.model_dump(),
        "holes": run.plan.holes.sha256 if run.plan.holes else None,
    }
    manifests = {split: file_sha256(files.manifests[split]) for split in ("train", "validation")}
    return _values(settings, tokenizer=file_sha256(files.tokenizer), manifests=manifests)


def _records(run: str, states: str) -> Iterator[Record]:
    """That of the training if it has ended, and those of its states, the last first, by the marker
    that each has once it is complete. A bucket's are not looked at."""
    file = RESULTS / "runs" / run / "training.json"
    if file.exists():
        said = Training.read(file)
        masking = {"fixed_slots": said.masking["slots"], "sequence_length": said.sequence_length}
        settings = vars(said) | {"masking": said.masking | masking}
        settings["holes"] = said.without.holes if said.without else None
        digests = {"tokenizer": said.digests.tokenizer, "manifests": said.digests.manifests}
        values = _values(settings, **digests)
        yield Record(str(file), True, said.steps, said.replicas, values, said.code)
    found = []
    for marker in Path(states, run).glob("*/step-*/complete.json") if "://" not in states else ():
        try:
            basis = json.loads(marker.read_bytes())["basis"]
            digests = {"tokenizer": basis["tokenizer"], "manifests": basis["manifests"]}
            values = _values(basis["settings"], **digests, code=_named_code(basis["code"]))
            step = int(marker.parent.name.removeprefix("step-"))
            replicas = basis["device"]["replicas"]
            found.append(Record(str(marker.parent), False, step, replicas, values))
        except (ValueError, KeyError, TypeError):
            continue  # damaged, or of an earlier version: training skips it as well
    yield from sorted(found, key=lambda record: (-record.reached, record.file))


def _named_code(digests: dict[str, str]) -> dict[str, str | None]:
    return {name: digests.get(name) for name in SHOWING_MODULES}
