"""The run as it was trained: which record says so, how far it came, and what differs from it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mlm.asking.answer import TrainingSoFar
from mlm.config.resolution import Settings
from mlm.config.run import RunConfiguration
from mlm.foundations.code_digests import SCRIPTS, code_digests, training_code
from mlm.foundations.differences import differences
from mlm.foundations.digests import FileMemory, file_sha256, value_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.samples.artefacts import HolesOfRun
from mlm.samples.manifests import Manifest, shards_root
from mlm.tokenizer.encoding import Encoder
from mlm.training.artefacts import Training
from mlm.training.run import Run, RunFiles
from mlm.training.run_inputs import read_manifests, run_of

RESULTS = Path("results")
#: The modules that decide what a step is shown. A saved state names them with their digests.
SHOWING_MODULES = (
    "mlm.samples.masking",
    "mlm.samples.shuffling",
    "mlm.samples.stored_batches",
)
_MASKING = ("mlm_probability", "mask_token", "random_token", "whole_word")
_OTHER_CODE = (
    "The code was edited since the training, and no saved state is left that says where: this is "
    "what the code of today would show."
)


@dataclass(frozen=True)
class Record:
    """What a file says of a training: the updates made, its replicas, the values that its batches
    follow from, and the digest of all code that trained, if the file has it."""

    file: str
    finished: bool
    reached: int
    replicas: int
    values: dict[str, Any]
    whole_code: str | None = None


@dataclass(frozen=True)
class PastRun:
    """The resolved run with its data (`manifests` of the splits that are packed), the record of its
    training, if any, those of its saved states, and sentences on what is not known."""

    run: Run
    files: RunFiles
    manifests: dict[str, Manifest]
    encoder: Encoder
    memory: FileMemory
    record: Record | None = None
    states: tuple[Record, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reached(self) -> int:
        return self.record.reached if self.record else 0

    @property
    def so_far(self) -> TrainingSoFar:
        """How far the training is known to be."""
        record = self.record
        return TrainingSoFar(
            state="not begun" if record is None else "finished" if record.finished else "under way",
            reached=self.reached,
            steps=self.run.steps,
            samples_per_step=self.run.batch_size,
            samples=self.run.train.num_samples,
            record=record.file if record else None,
        )

    def root(self, split: str) -> Path:
        """The directory that the paths of the split's manifest are relative to."""
        return shards_root(self.manifests[split], self.files.manifests[split])


def files_of_training() -> RunFiles:
    """What a training reads, in the places where its stages write."""
    manifests = {s: str(RESULTS / "manifests" / f"{s}.json") for s in ("train", "validation")}
    return RunFiles(str(RESULTS / "tokenizer" / "tokenizer.json"), manifests)


def with_targets(command: str, *targets: str | Path) -> str:
    """`command` with targets in a place where no option takes them as its values."""
    program, options = command.split(" --cores ", 1)
    cores, *rest = options.split(" ", 1)
    return " ".join([program, "--cores", cores, *map(str, targets), *rest])


def configuration_of(settings: Settings, run: str) -> RunConfiguration:
    """What the configuration says of the training of `run`.

    Raises MlmError if the file that says what it leaves out is missing, or of another list.
    """
    own = RunConfiguration.of(settings, run)
    parent, forget = own.pretraining.continue_from.run, own.pretraining.forget
    holes = RESULTS / "holes" / f"{run}.json"
    if forget and not holes.exists():
        raise MlmError(
            f"{holes}: not there yet, so that it is not known what run {run} leaves out. To have "
            f"it made: snakemake --cores 1 {holes}, with the options of the configuration"
        )
    if forget and [one.what for one in HolesOfRun.read(holes).forget] != forget:
        raise MlmError(
            f"{holes}: was made from another list of pretraining.forget than the configuration "
            f"has. Ask with the list that run {run} was trained with, or train it again: the same "
            "snakemake command"
        )
    return own.with_values(
        parent=configuration_of(settings, parent) if parent else None,
        holes=str(holes) if forget else None,
    )


def past_run(settings: Settings, run: str, command: str) -> PastRun:
    """The configuration's `run` with the furthest record of it that it agrees with.

    `command` is the snakemake command of the configuration, without targets. Raises MlmError for an
    unknown run, missing results, shards without text, and, naming each difference, if there are
    records and the run agrees with none.
    """
    if run not in settings["runs"]:
        raise MlmError(f"No run is called {run!r}; there are: {', '.join(settings['runs'])}")
    files, test = files_of_training(), RESULTS / "manifests" / "test.json"
    if missing := [f for f in (files.tokenizer, *files.manifests.values()) if not Path(f).exists()]:
        raise MlmError(
            f"{', '.join(missing)}: not there yet, so that nothing is known of what a training "
            f"is shown. To have it made: {with_targets(command, *missing)}"
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

    records, saved = list(_of_training(run)), config.pretraining.checkpoint.directory
    if "://" not in saved:
        records += _of_states(Path(saved) / run)
    code = {}
    if not all(record.finished for record in records):
        code = _named_code(code_digests(SCRIPTS, SHOWING_MODULES, memory))
    agreeing, refused = [], []
    for record in sorted(records, key=lambda r: (-r.finished, -r.reached)):
        now = _values_of(resolved(record.replicas), files) | {"code": code}
        found = differences(record.values, {name: now[name] for name in record.values})
        (refused if found else agreeing).append((record, found))
    if agreeing:
        record = agreeing[0][0]
        others = (other for other, _ in agreeing if other.replicas == record.replicas)
        states = tuple(other for other in others if not other.finished)
        known = states or record.whole_code in (None, value_sha256(training_code(memory)))
        past = resolved(record.replicas), files, manifests, encoder, memory, record, states
        return PastRun(*past, () if known else (_OTHER_CODE,))
    if refused:
        record, found = refused[0]
        raise MlmError(
            f"{record.file}: run {run} was trained with something else than it is asked about "
            f"with:\n{listed(found)}\nAsk with the configuration, the code and the results that it "
            "was trained with, or train it again: the same snakemake command"
        )
    planned = (config.accelerator.virtual_replicas or 1) * (config.accelerator.processes or 1)
    return PastRun(resolved(planned), files, manifests, encoder, memory)


def _values(
    settings: dict, masking: dict, slots: int | None, length: int, initialisation: dict, **data: Any
) -> dict[str, Any]:
    """The values that the batches of a run follow from, by the names that messages give them."""
    accumulated = settings["optimizer"]["gradient_accumulation_steps"]
    return {
        "pretraining": {
            **{name: settings[name] for name in ("seed", "steps", "per_replica_batch_size")},
            "optimizer": {"gradient_accumulation_steps": accumulated},
            "masking": {name: masking[name] for name in _MASKING} | {"slots": slots},
        },
        "pretraining.shuffle_window": settings["shuffle_window"],
        "shards.sequence_length": length,
        # Counts of the train split show it as well, before the first step.
        "model.initialisation": initialisation,
        **data,
    }


def _values_of(run: Run, files: RunFiles) -> dict[str, Any]:
    plan = run.plan
    return _values(
        run.pretraining.model_dump(),
        vars(plan),
        plan.fixed_slots,
        plan.sequence_length,
        run.model.initialisation.model_dump(),
        holes=plan.holes.sha256 if plan.holes else None,
        tokenizer=file_sha256(files.tokenizer),
        manifests={s: file_sha256(files.manifests[s]) for s in ("train", "validation")},
    )


def _of_training(run: str) -> Iterator[Record]:
    """What training.json of a training that has ended says."""
    file = RESULTS / "runs" / run / "training.json"
    if not file.exists():
        return
    training = Training.read(file)
    values = _values(
        vars(training),
        training.masking,
        training.masking["slots"],
        training.sequence_length,
        training.initialisation,
        holes=training.without.holes if training.without else None,
        tokenizer=training.digests.tokenizer,
        manifests=training.digests.manifests,
    )
    if training.shuffle_window is None:
        del values["pretraining.shuffle_window"]
    yield Record(str(file), True, training.steps, training.replicas, values, training.code)


def _of_states(directory: Path) -> Iterator[Record]:
    """The states below `directory`, by the marker that each has once it is complete."""
    for file in sorted(directory.glob("*/step-*/complete.json")):
        try:
            basis = json.loads(file.read_bytes())["basis"]
            settings, masking = basis["settings"], basis["settings"]["masking"]
            values = _values(
                settings,
                masking,
                masking["fixed_slots"],
                masking["sequence_length"],
                settings["initialisation"],
                holes=settings.get("holes"),
                tokenizer=basis["tokenizer"],
                manifests=basis["manifests"],
                code=_named_code(basis["code"]),
            )
            step = int(file.parent.name.removeprefix("step-"))
            yield Record(str(file.parent), False, step, basis["device"]["replicas"], values)
        except (ValueError, KeyError, TypeError):
            continue  # damaged, or of an earlier version: training skips it as well


def _named_code(digests: dict[str, str]) -> dict[str, str | None]:
    return {name: digests.get(name) for name in SHOWING_MODULES}
