"""Section `sweep`: one run for each combination of values, named by them."""

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

from mlm.config.configuration import Overrides
from mlm.config.problems import canonical, checked, merged

_IN_A_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def swept(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """`given` with each run at each combination of what `sweep` lists in the place of the runs, and
    what is wrong with `sweep`, in words.

    Of values of another type nothing is said here: whoever checks the types does.
    """
    paths, runs = given.get("sweep"), given.get("runs", {"base": {}})
    if not (paths and isinstance(paths, dict) and isinstance(runs, dict)):
        return dict(given), []
    problems, varied = [], []
    for path, values in paths.items():
        if not (values and isinstance(values, list)):
            return dict(given), []
        found, wrong = _values(path, values)
        problems += wrong or [
            f"runs.{run}: sets {path}, which sweep varies; keep one of the two"
            for run, own in runs.items()
            if _sets(own, path.split("."))
        ]
        varied.append([(f"{_short(path, paths)}-{name}", value) for name, value in found.items()])
    rest = {key: value for key, value in given.items() if key != "sweep"}
    if problems:
        return rest, problems
    grid = list(itertools.product(*varied))
    return rest | {
        "runs": {
            "_".join([str(run), *(name for name, _ in point)]): _laid_over(own, point)
            for run, own in runs.items()
            for point in grid
        }
    }, []


def _sets(values: Any, keys: list[str]) -> bool:
    """Whether something stands in `values` at the path `keys`."""
    for key in keys:
        if not (isinstance(values, dict) and key in values):
            return False
        values = values[key]
    return True


def _laid_over(own: Any, point: tuple) -> Any:
    for _, value in point:
        own = merged(own or {}, value)
    return own


def _values(path: str, values: list) -> tuple[dict[str, Any], list[str]]:
    """The settings that come to each value of `path`, by its name, and what is wrong with them."""
    found, problems = {}, []
    for value in values:
        nested = value
        for key in reversed(path.split(".")):
            nested = {key: nested}
        if wrong := checked(Overrides, nested)[1]:
            problems += [f"sweep: {line}" for line in wrong]
            continue
        held = canonical(nested, Overrides)
        for key in path.split("."):
            held = held[key]
        # 0.003, 1e-05, 2, muon, true
        name = json.dumps(held).removesuffix(".0").strip('"')
        if not _IN_A_NAME.fullmatch(name):
            problems.append(
                f"sweep: {path}: {value!r} cannot be part of a run's name; numbers and words of "
                "letters, digits, '_', '-' and '.' can. Name such runs yourself, below runs"
            )
        elif name in found:
            problems.append(f"sweep: {path}: {value!r} is named twice; keep one")
        found[name] = nested
    return found, list(dict.fromkeys(problems))


def _short(path: str, paths: Mapping[str, Any]) -> str:
    """The end of `path` that no other of `paths` ends with: learning_rate."""
    keys = path.split(".")
    ends = (".".join(keys[-count:]) for count in range(1, len(keys) + 1))
    return next(e for e in ends if sum(f".{p}".endswith(f".{e}") for p in paths) == 1)
