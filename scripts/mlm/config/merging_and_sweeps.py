"""Settings laid over others, key by key, and the runs that section `sweep` stands for."""

import copy
import itertools
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any

from mlm.config.pretraining import with_one_length


def merged(base: Any, override: Any) -> Any:
    """`base` under `override`, key by key; a list is replaced whole, a length by another."""
    if not (isinstance(base, dict) and isinstance(override, dict)):
        return copy.deepcopy(override)
    override = with_one_length(override, base)
    return copy.deepcopy(base) | {k: merged(base.get(k), v) for k, v in override.items()}


def differing(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `values` that is not as in `defaults`, nested alike."""
    changed = {}
    for key, value in values.items():
        default = defaults.get(key)
        if isinstance(value, dict) and isinstance(default, dict):
            if inner := differing(value, default):
                changed[key] = inner
        elif key not in defaults or value != default:
            changed[key] = value
    return changed


def swept(values: Mapping[str, Any], sections: Collection[str]) -> dict[str, Any]:
    """`values` with the runs of section `sweep` in the place of its runs, one for each combination,
    unless something is wrong with either; `sections` are those that a run may override."""
    sweep, runs = values.get("sweep"), values.get("runs", {"base": {}})
    if not (sweep and isinstance(sweep, dict) and isinstance(runs, dict)) or not all(
        str(path).partition(".")[0] in sections
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
