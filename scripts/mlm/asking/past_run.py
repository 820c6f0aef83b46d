"""The run as it was trained: which record says so, how far it came, and what differs from it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlm.config.resolution import Settings
from mlm.config.run import RunConfiguration
from mlm.foundations.code_digests import SCRIPTS, code_digests, training_code
from mlm.foundations.differences import differences
from mlm.foundations.digests import FileMemory, file_sha256, value_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.samples.artefacts import HolesOfRun
from mlm.samples.manifests import Manifest
from mlm.tokenizer.encoding import Encoder
from mlm.training.artefacts import Training
from mlm.training.run import Run, RunFiles
from mlm.training.run_inputs import run_of

RESULTS = Path("results")
#: The modules that decide what a step is shown. A saved state names them with their digests.
SHOWING_MODULES = (
    "mlm.samples.masking",
    "mlm.samples.shuffling",
    "mlm.samples.stored_batches",
)
_MASKING = ("mlm_probability", "mask_token", "random_token", "whole_word")


@dataclass(frozen=True)
class Record:
    """What a file says of a training: the updates it had made, its replicas, and the values that
    its batches followed from, as far as the file has them.

    `whole_code` is a digest of all code that trained, None where the file does not say.
    """

    file: str
    finished: bool
    reached: int
    replicas: int
    values: dict[str, Any]
    whole_code: str | None = None


@dataclass(frozen=True)
class PastRun:
    """The run, resolved, with the record of its training (None: there is none), the records of its
    saved states, and sentences on what is not known."""

    run: Run
    record: Record | None
    states: tuple[Record, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reached(self) -> int:
        return self.record.reached if self.record else 0


def files_of_training() -> RunFiles:
    """What a training reads, where its stages leave it."""
    manifests = {s: str(RESULTS / "manifests" / f"{s}.json") for s in ("train", "validation")}
    return RunFiles(str(RESULTS / "tokenizer" / "tokenizer.json"), manifests)


def configuration_of(settings: Settings, run: str) -> RunConfiguration:
    """What the configuration says of the training of `run`.

    Raises MlmError where the file that says what it leaves out is missing, or of another list.
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


def past_run(
    settings: Settings,
    run: str,
    files: RunFiles,
    manifests: dict[str, Manifest],
    encoder: Encoder,
    memory: FileMemory,
) -> PastRun:
    """The configuration's `run` with the furthest record of it that it agrees with.

    Raises MlmError, naming each difference, if there are records and the run agrees with none.
    """
    config = configuration_of(settings, run)
    saved, records = config.pretraining.checkpoint.directory, list(_of_training(run))
    if "://" not in saved:
        records += _of_states(Path(saved) / run)

    @cache
    def resolved(replicas: int) -> Run:
        return run_of(config, files, manifests, replicas, with_model=False, encoder=encoder)

    code = {}
    if not all(record.finished for record in records):
        code = _named_code(code_digests(SCRIPTS, SHOWING_MODULES, memory))
    refused = None
    for record in sorted(records, key=lambda r: (-r.finished, -r.reached)):
        now = _values_of(resolved(record.replicas), files) | {"code": code}
        found = _differences(record.values, now)
        # The saved states of the same training, which know its code in parts.
        alike = [r for r in records if not r.finished and _agree(r, record)]
        states = [r for r in alike if not _differences(r.values, now)]
        if alike and not states and not found:
            record, found = alike[-1], _differences(alike[-1].values, now)
        if not found:
            known = states or record.whole_code in (None, value_sha256(training_code(memory)))
            notes = () if known else (_OTHER_CODE,)
            return PastRun(resolved(record.replicas), record, tuple(states), notes)
        refused = refused or (record, found)
    if refused:
        record, found = refused
        raise MlmError(
            f"{record.file}: run {run} was trained with something else than it is asked about "
            f"with:\n{listed(found)}\nAsk with the configuration, the code and the results that it "
            "was trained with, or train it again: the same snakemake command"
        )
    accelerator = config.accelerator
    planned = (accelerator.virtual_replicas or 1) * (accelerator.processes or 1)
    return PastRun(resolved(planned), None)


_OTHER_CODE = (
    "The code was edited since the training, and no saved state is left that says where: this is "
    "what the code of today would show."
)


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
        {name: getattr(plan, name) for name in _MASKING},
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


def _differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A line for each value of `then` that is another `now`."""
    return differences(then, {name: now[name] for name in then})


def _agree(one: Record, other: Record) -> bool:
    both = one.values.keys() & other.values.keys()
    return one.replicas == other.replicas and all(one.values[k] == other.values[k] for k in both)
