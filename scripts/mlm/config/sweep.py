"""Section `sweep`: one run for each combination of values, named by them."""

import itertools
import json
import re
from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any

from mlm.config.configuration import Overrides
from mlm.config.merging import as_plain, merged
from mlm.config.problems import checked

#: Sections that all runs of a working directory share.
_SHARED = ("corpus", "tokenizer", "shards")
_IN_A_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def swept(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """`given` with the runs that `sweep` asks for in the place of its runs, and what is wrong with
    `sweep`, in words, if its types are right."""
    paths, runs = given.get("sweep"), given.get("runs", {"base": {}})
    lists = isinstance(paths, dict) and all(v and isinstance(v, list) for v in paths.values())
    if not (paths and lists and isinstance(runs, dict)):
        return dict(given), []
    problems, varied = [], []
    for path, values in paths.items():
        found, wrong = _values(path, values)
        problems += wrong or [
            f"runs.{run}: sets {path}, which sweep varies; keep one of the two"
            for run, own in runs.items()
            if _at(own, path) is not None
        ]
        varied.append(
            [(f"{short_name(path, paths)}-{name}", value) for name, value in found.items()]
        )
    rest = {key: value for key, value in given.items() if key != "sweep"}
    if problems:
        return rest, problems
    rest["runs"] = {
        "_".join([str(run), *(name for name, _ in point)]): reduce(
            merged, (value for _, value in point), own or {}
        )
        for run, own in runs.items()
        for point in itertools.product(*varied)
    }
    return rest, []


def _at(values: Any, path: str) -> Any:
    """The value in `values` at the dotted `path`, or None."""
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _values(path: str, values: list) -> tuple[dict[str, Any], list[str]]:
    """The settings that come to each value of `path`, by its name, and what is wrong with them."""
    if path.split(".")[0] in _SHARED:
        return {}, [
            f"sweep: {path}: all runs share {', '.join(_SHARED)}. To compare such values, train "
            "each in a working directory of its own (snakemake --directory) and name the other's "
            "run in report.also: {name: ../other/results/runs/base}. docs/runs.md shows how"
        ]
    found, problems = {}, []
    for value in values:
        nested = reduce(lambda below, key: {key: below}, reversed(path.split(".")), value)
        if wrong := checked(Overrides, nested)[1]:
            problems += [f"sweep: {line}" for line in wrong]
            continue
        # 0.003, 1e-05, 2, muon, true
        name = json.dumps(_at(as_plain(nested, Overrides), path)).removesuffix(".0").strip('"')
        if not _IN_A_NAME.fullmatch(name):
            problems.append(
                f"sweep: {path}: {value!r} cannot be part of a run's name; numbers and words of "
                "a to z, A to Z, digits, '_', '-' and '.' can. Name such runs yourself, below runs"
            )
        elif name in found:
            problems.append(f"sweep: {path}: {value!r} is named twice; keep one")
        found[name] = nested
    return found, problems


def short_name(path: str, paths: Collection[str]) -> str:
    """The shortest end of `path` that no other of `paths` ends with: learning_rate."""
    keys = path.split(".")
    ends = (".".join(keys[-count:]) for count in range(1, len(keys) + 1))
    return next(e for e in ends if sum(f".{p}".endswith(f".{e}") for p in paths) == 1)
