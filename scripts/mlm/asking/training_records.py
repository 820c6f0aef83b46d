"""What the records of a past training say that its batches follow from: its training.json, and
the markers of its saved states."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlm.foundations.code_digests import SCRIPTS, code_digests, training_code
from mlm.foundations.digests import FileMemory, differences, file_sha256, value_sha256
from mlm.foundations.errors import SAME_COMMAND, MlmError, listed
from mlm.training.artefacts import Training
from mlm.training.run import Run, RunFiles

RESULTS = Path("results")
#: The modules that decide what a step is shown. A saved state names them with their digests.
SHOWING_MODULES = ("mlm.samples.masking", "mlm.samples.shuffling", "mlm.samples.stored_batches")


@dataclass(frozen=True)
class Record:
    """What a file says of a training: updates made, replicas, the values that its batches follow
    from, and the code that trained: its digest, or those of its modules in a saved state."""

    file: str
    finished: bool
    reached: int
    replicas: int
    values: dict[str, Any]
    code: str | dict[str, str] | None

    def of_todays_code(self, memory: FileMemory) -> bool:
        """Whether it was trained with the code of today, as far as it says."""
        if isinstance(self.code, dict):
            today = code_digests(SCRIPTS, sorted(self.code), memory)
            return self.code.items() <= today.items()
        return self.code in (None, value_sha256(training_code(memory)))


def agreeing_records(
    run: str, states: str, values_now: Callable[[int], dict[str, Any]]
) -> list[Record]:
    """The records of `run`, whose states are in the directory `states`, with its values of now on
    as many replicas; MlmError if there are records and none has them."""
    agreeing, refused = [], []
    for record in _records(run, states):
        now = values_now(record.replicas)
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
    return agreeing


def _records(run: str, states: str) -> Iterator[Record]:
    """That of the training if it has ended, and those of its states, the last first, by the marker
    that each has once it is complete. A bucket's are not looked at."""
    file = RESULTS / "runs" / run / "training.json"
    if file.exists():
        said = Training.read(file)
        masking = {"fixed_slots": said.masking["slots"], "sequence_length": said.sequence_length}
        settings = vars(said) | {"masking": said.masking | masking}
        digests = {"tokenizer": said.digests.tokenizer, "manifests": said.digests.manifests}
        values = _values(settings, **digests)
        yield Record(str(file), True, said.steps, said.replicas, values, said.code)
    found = []
    for marker in Path(states, run).glob("*/step-*/complete.json") if "://" not in states else ():
        try:
            basis = json.loads(marker.read_bytes())["basis"]
            digests = {"tokenizer": basis["tokenizer"], "manifests": basis["manifests"]}
            code, replicas = basis["code"], basis["device"]["replicas"]
            values = _values(basis["settings"], **digests, code=_named_code(code))
            step = int(marker.parent.name.removeprefix("step-"))
            found.append(Record(str(marker.parent), False, step, replicas, values, code))
        except (ValueError, KeyError, TypeError):
            continue  # damaged, or of an earlier version: training skips it as well
    yield from sorted(found, key=lambda record: (-record.reached, record.file))


def values_of(run: Run, files: RunFiles, memory: FileMemory) -> dict[str, Any]:
    """Those of a record that `run`, its `files` and the code would have now."""
    settings = run.pretraining.model_dump() | {
        "masking": vars(run.plan),
        "initialisation": run.model.initialisation.model_dump(),
    }
    manifests = {split: file_sha256(files.manifests[split]) for split in ("train", "validation")}
    code = _named_code(code_digests(SCRIPTS, SHOWING_MODULES, memory))
    return _values(settings, tokenizer=file_sha256(files.tokenizer), manifests=manifests, code=code)


def _values(settings: dict, **data: Any) -> dict[str, Any]:
    """The values that the batches of a run follow from, by the names that messages give them;
    `settings` are in the form of a saved state's."""
    masking, accumulated = settings["masking"], "gradient_accumulation_steps"
    sizes = ("seed", "steps", "per_replica_batch_size", "shuffle_window")
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


def _named_code(digests: dict[str, str]) -> dict[str, str | None]:
    return {name: digests.get(name) for name in SHOWING_MODULES}
