"""The runs of a configuration: those that a sweep makes, and what the training of each depends on.
A run that others continue keeps the states that they begin with."""

import itertools
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

from mlm.config.configuration import Configuration, Overrides
from mlm.config.fields import merged
from mlm.config.pretraining import Operation, RunConfiguration


def swept(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with the runs of section `sweep` in the place of its runs, one for each combination,
    unless something is wrong with either section."""
    sweep, runs = values.get("sweep"), values.get("runs", {"base": {}})
    if not (sweep and isinstance(sweep, dict) and isinstance(runs, dict)) or not all(
        str(path).partition(".")[0] in Overrides.model_fields
        and (isinstance(varied, list) and varied)
        and all(isinstance(_section_with(path, run), dict) for run in runs.values())
        for path, varied in sweep.items()
    ):
        return dict(values)
    combined = {}
    for name, run in runs.items():
        for point in itertools.product(*sweep.values()):
            settings, parts = run or {}, [str(name)]
            for path, value in zip(sweep, point, strict=True):
                parts.append(f"{short_name(path, sweep)}-{_name_of(value)}")
                keys = reversed(path.split("."))
                settings = merged(settings, reduce(lambda below, key: {key: below}, keys, value))
            combined["_".join(parts)] = settings
    return {key: value for key, value in values.items() if key != "sweep"} | {"runs": combined}


def _section_with(path: str, run: Any) -> Any:
    """What `run` has in the place of the section of `path`: something else, if it is wrong."""
    keys, run = path.split(".")[:-1], {} if run is None else run
    return reduce(lambda at, key: at.get(key, {}) if isinstance(at, dict) else at, keys, run)


def _name_of(value: Any) -> str:
    """The name of a swept value, however it is written: 0.003, 1e-05, 2, muon, true."""
    with suppress(ValueError, TypeError):
        value = json.loads(value)
    return json.dumps(value, default=str).removesuffix(".0").strip('"')


def short_name(path: str, paths: Collection[str]) -> str:
    """The shortest end of `path` that no other of `paths` ends with: learning_rate."""
    keys = path.split(".")
    ends = (".".join(keys[-count:]) for count in range(1, len(keys) + 1))
    return next(e for e in ends if sum(f".{p}".endswith(f".{e}") for p in paths) == 1)


def families_of(configuration: Configuration) -> list[str]:
    """The families of all runs, sorted, except those of checkpoints on the Hub."""
    models = [run.model for run in configuration.sections_of_runs().values()]
    known = [m for m in models if m.start_from is None or Path(m.start_from).is_dir()]
    return sorted({model.model_type for model in known})


def trainings(configuration: Configuration) -> dict[str, RunConfiguration]:
    """The training of each run."""
    runs = configuration.sections_of_runs()
    return {name: _training(configuration, runs, name) for name in runs}


def _training(
    configuration: Configuration, runs: dict[str, Overrides], name: str
) -> RunConfiguration:
    run, pretraining = runs[name], runs[name].pretraining
    starts = [other.pretraining.continue_from for other in runs.values()]
    continued = [start.step for start in starts if start.run == name and start.step]
    keep_steps = sorted({*continued, *pretraining.checkpoint.keep_steps})
    parent = pretraining.continue_from.run
    return RunConfiguration(
        name=name,
        model=run.model.of_jobs(),
        pretraining=pretraining.recipe,
        accelerator=configuration.accelerator,
        seed=configuration.seed,
        sequence_length=configuration.shards.sequence_length,
        corpus_source=configuration.corpus.source,
        operation=Operation(
            checkpoint=pretraining.checkpoint.model_copy(update={"keep_steps": keep_steps}),
            continue_from=pretraining.continue_from,
            parent=_training(configuration, runs, parent) if parent else None,
        ),
    )
