"""The run as it was trained: which record says so, how far it came, and what differs from it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlm.foundations.code_digests import SCRIPTS, code_digests, training_code
from mlm.foundations.digests import FileMemory, file_sha256, value_sha256
from mlm.foundations.errors import MlmError, listed
from mlm.samples.artefacts import HolesOfRun
from mlm.training.artefacts import Training
from mlm.training.run import Run, RunFiles

#: The modules that decide what a step is shown. A saved state names them with their digests.
SHOWING_MODULES = (
    "mlm.samples.masking",
    "mlm.samples.shuffling",
    "mlm.samples.stored_batches",
)
#: What a run leaves out of the train split, as a record's values name it.
_LEFT_OUT = "the list of documents left out (pretraining.forget)"
_MASKING = ("mlm_probability", "mask_token", "random_token", "whole_word", "slots")


@dataclass(frozen=True)
class Record:
    """What a file says of a training: the updates it had made, its replicas, and the values that
    its batches followed from, by their names, as far as the file has them.

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
    """The run, resolved, on so many replicas, with the record of its training (None: there is none)
    and sentences on what is not known."""

    run: Run
    replicas: int
    record: Record | None
    notes: tuple[str, ...] = ()

    @property
    def reached(self) -> int:
        return self.record.reached if self.record else 0


def past_run(
    resolved: Callable[[int], Run],
    files: RunFiles,
    records: list[Record],
    planned_replicas: int,
    memory: FileMemory | None = None,
) -> PastRun:
    """The run with the furthest of `records` that it agrees with.

    `resolved` gives the run on a number of replicas; `planned_replicas` are those of a training
    that has left no record. Raises MlmError, naming each difference, where there are records and
    the run agrees with none.
    """
    known: dict[int, Run] = {}
    different, code = [], {}
    if not all(record.finished for record in records):
        code = _named_code(code_digests(SCRIPTS, SHOWING_MODULES, memory))
    for record in sorted(records, key=lambda r: (-r.finished, -r.reached)):
        if record.replicas not in known:
            known[record.replicas] = resolved(record.replicas)
        run = known[record.replicas]
        now = values_of(run, files) | code
        if found := differences(record.values, now):
            different.append((record, found))
            continue
        # The saved states of this training, which know its code in parts.
        states = [r for r in records if not r.finished and _agree(r, record)]
        others = [(r, differences(r.values, now)) for r in states]
        if states and all(found for _, found in others):
            different.append(others[-1])
            continue
        notes = () if states else _code_notes(record, memory)
        return PastRun(run, record.replicas, record, notes)
    if different:
        record, found = different[0]
        name = known[record.replicas].name
        raise MlmError(
            f"{record.file}: run {name} was trained with something else than it is asked about "
            f"with:\n{listed(found)}\nAsk with the configuration, the code and the results that it "
            "was trained with, or train it again: the same snakemake command"
        )
    return PastRun(resolved(planned_replicas), planned_replicas, None)


def values_of(run: Run, files: RunFiles) -> dict[str, Any]:
    """All values that the batches of a run follow from, as a record names them."""
    plan = run.plan
    return {
        "seed": run.seed,
        "steps": run.steps,
        "shards.sequence_length": plan.sequence_length,
        "pretraining.per_replica_batch_size": run.pretraining.per_replica_batch_size,
        "pretraining.optimizer.gradient_accumulation_steps": (
            run.pretraining.optimizer.gradient_accumulation_steps
        ),
        "pretraining.shuffle_window": run.pretraining.shuffle_window,
        "pretraining.masking.mlm_probability": plan.mlm_probability,
        "pretraining.masking.mask_token": plan.mask_token,
        "pretraining.masking.random_token": plan.random_token,
        "pretraining.masking.whole_word": plan.whole_word,
        "pretraining.masking.slots": plan.fixed_slots,
        **_initialisation(run.model.initialisation.model_dump()),
        _LEFT_OUT: run.plan.holes.sha256 if run.plan.holes else None,
        "the tokenizer": file_sha256(files.tokenizer),
        **{
            f"the manifest of {split}": file_sha256(files.manifests[split])
            for split in ("train", "validation")
        },
    }


def saved_by(
    record: Record, past: PastRun, files: RunFiles, memory: FileMemory | None = None
) -> bool:
    """Whether the saved state of `record` is one of the training of `past`."""
    code = _named_code(code_digests(SCRIPTS, SHOWING_MODULES, memory))
    now = values_of(past.run, files) | code
    return record.replicas == past.replicas and not differences(record.values, now)


def holes_file(results: Path, run: str, forget: list[str]) -> str | None:
    """The file that says what `run` leaves out, None where `forget` is empty.

    Raises MlmError where it is not there, or is that of another list.
    """
    if not forget:
        return None
    file = results / "holes" / f"{run}.json"
    if file.exists() and [one.what for one in HolesOfRun.read(file).forget] == forget:
        return str(file)
    if file.exists():
        raise MlmError(
            f"{file}: was made from another list of pretraining.forget than the configuration has. "
            f"Ask with the list that run {run} was trained with, or train it again: the same "
            "snakemake command"
        )
    raise MlmError(
        f"{file}: not there yet, so that it is not known what run {run} leaves out. To have it "
        f"made: snakemake --cores 1 {file}, with the options of the configuration"
    )


def _initialisation(settings: dict[str, Any]) -> dict[str, Any]:
    """Counts of the train split show it as well, before the first step."""
    return {f"model.initialisation.{key}": value for key, value in settings.items()}


def _named_code(digests: dict[str, str]) -> dict[str, str | None]:
    return {f"the code of {name}": digests.get(name) for name in SHOWING_MODULES}


def differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A line for each of the values `then` that is another `now`."""
    return [
        f"{name} is another"
        if name.startswith("the ")
        else f"{name}: {value} then, {now[name]} now"
        for name, value in then.items()
        if value != now[name]
    ]


def read_records(results: Path, states: str, run: str) -> list[Record]:
    """What is known of the training of `run`: by training.json below `results`, and by the saved
    states in the directory `states` (those in a bucket are not looked at)."""
    summary = results / "runs" / run / "training.json"
    found = [_of_training(summary)] if summary.exists() else []
    return found + ([] if "://" in states else list(_of_states(Path(states) / run)))


def _of_training(file: Path) -> Record:
    training = Training.read(file)
    values = {
        "seed": training.seed,
        "steps": training.steps,
        "shards.sequence_length": training.sequence_length,
        "pretraining.per_replica_batch_size": training.per_replica_batch_size,
        "pretraining.optimizer.gradient_accumulation_steps": training.optimizer[
            "gradient_accumulation_steps"
        ],
        **{f"pretraining.masking.{key}": training.masking[key] for key in _MASKING},
        **_initialisation(training.initialisation),
        _LEFT_OUT: training.without.holes if training.without else None,
        "the tokenizer": training.digests.tokenizer,
        **{f"the manifest of {s}": digest for s, digest in training.digests.manifests.items()},
    }
    if training.shuffle_window is not None:
        values["pretraining.shuffle_window"] = training.shuffle_window
    return Record(
        file=str(file),
        finished=True,
        reached=training.steps,
        replicas=training.replicas,
        values=values,
        whole_code=training.code,
    )


def _of_states(directory: Path) -> Iterator[Record]:
    """The states below `directory`, by the marker that each has once it is complete."""
    for file in sorted(directory.glob("*/step-*/complete.json")):
        try:
            basis = json.loads(file.read_bytes())["basis"]
            settings, masking = basis["settings"], basis["settings"]["masking"]
            yield Record(
                file=str(file.parent),
                finished=False,
                reached=int(file.parent.name.removeprefix("step-")),
                replicas=basis["device"]["replicas"],
                values={
                    "seed": settings["seed"],
                    "steps": settings["steps"],
                    "shards.sequence_length": masking["sequence_length"],
                    "pretraining.per_replica_batch_size": settings["per_replica_batch_size"],
                    "pretraining.optimizer.gradient_accumulation_steps": settings["optimizer"][
                        "gradient_accumulation_steps"
                    ],
                    "pretraining.shuffle_window": settings["shuffle_window"],
                    **{f"pretraining.masking.{key}": masking[key] for key in _MASKING[:-1]},
                    "pretraining.masking.slots": masking["fixed_slots"],
                    **_initialisation(settings["initialisation"]),
                    _LEFT_OUT: settings.get("holes"),
                    "the tokenizer": basis["tokenizer"],
                    **{f"the manifest of {s}": d for s, d in basis["manifests"].items()},
                    **_named_code(basis["code"]),
                },
            )
        except (ValueError, KeyError, TypeError):
            continue  # damaged, or of an earlier version: training passes it over as well


def _code_notes(record: Record, memory: FileMemory | None) -> tuple[str, ...]:
    """What is not known of the code that trained, where no state is left."""
    if record.whole_code is None:
        return ()
    if record.whole_code == value_sha256(training_code(memory)):
        return ()
    return (
        "The code was edited since the training, and no saved state is left that says where: this "
        "is what the code of today would show.",
    )


def _agree(one: Record, other: Record) -> bool:
    both = one.values.keys() & other.values.keys()
    return one.replicas == other.replicas and all(one.values[k] == other.values[k] for k in both)
