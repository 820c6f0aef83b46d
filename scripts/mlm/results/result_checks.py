"""What is below results/, looked over before anything is planned.

Snakemake goes by dates and by its own notes in .snakemake. Neither sees a result that was
damaged, or replaced by an older one with its old date. Every artefact says what it was made
from, so that the results themselves can be asked.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlm.foundations.digests import LARGEST_READ, FileMemory
from mlm.foundations.errors import MlmError, remedy
from mlm.results.artefacts import (
    MadeFrom,
    is_artefact,
    made_from,
    read_artefact,
    result_sha256,
    settings_digests,
)

_NOTES = Path(".snakemake")
#: Snakemake cuts the names of its notes to pieces of this length, less one.
_LONGEST_NAME = 255


@dataclass
class Found:
    """What a look at the results brought up.

    `problems`: damage and strangers, in words. `replaced`: the results that are others than
    those that were read of them, though their dates do not tell; each with a sentence.
    """

    problems: list[str] = field(default_factory=list)
    replaced: dict[str, str] = field(default_factory=dict)


def look_over(
    results: Iterable[str],
    params_of: Callable[[str], Mapping[str, Any] | None],
    memory: FileMemory,
) -> Found:
    """Check each artefact among `results` against its record and its record against the rest.

    Args:
        results: paths of all results that the configuration asks for.
        params_of: the params that a job would get now that makes the given path.
        memory: remembers the digests of files.

    Results that a kill left unfinished are passed over: Snakemake makes them again.
    """
    found, wanted, damaged = Found(), set(results), {}
    for path in sorted(p for p in wanted if is_artefact(p) and Path(p).exists()):
        if _noted("incomplete", path):
            continue
        try:
            record = made_from(memory.value("artefact", path, _readable))
        except MlmError as error:
            found.problems.append(str(error))
            continue
        damaged |= _damaged(path, record.outputs, memory)
        found.problems += of_other_settings(path, record, params_of(path))
        found.replaced |= _replaced(path, record.inputs, memory)
    found.problems += damaged.values()
    return found


def _readable(path: Path) -> dict:
    """The record alone of an artefact that is whole."""
    content = read_artefact(path)
    return {key: content[key] for key in ("made_from",) if key in content}


def _damaged(path: str, outputs: Mapping[str, str], memory: FileMemory) -> dict[str, str]:
    problems = {}
    for other, sha256 in sorted(outputs.items()):
        if not Path(other).exists() or _noted("incomplete", other):
            continue
        size = Path(other).stat().st_size
        # Whoever reads a larger one checks it then.
        if size <= LARGEST_READ and memory.value("result", other, result_sha256) != sha256:
            problems[other] = (
                f"{other} is damaged: it is not what was written beside {path} ({size} bytes, "
                f"recorded sha256 {sha256[:12]}…). {remedy(other)}"
            )
    return problems


def _replaced(path: str, inputs: Mapping[str, str], memory: FileMemory) -> dict[str, str]:
    """Inputs of `path` that changed since, with dates from before it was made."""
    made, found = Path(path).stat().st_mtime, {}
    for other, sha256 in sorted(inputs.items()):
        place = Path(other)
        if not place.exists() or place.stat().st_mtime > made:
            continue
        if place.stat().st_size <= LARGEST_READ and (
            memory.value("result", other, result_sha256) != sha256
        ):
            found[other] = (
                f"{other} is another than the one that {path} was made from, though its date is "
                "older: what follows from it is made again"
            )
    return found


def of_other_settings(path: str, record: MadeFrom, params: Mapping[str, Any] | None) -> list[str]:
    """Results of other settings or code that Snakemake takes as done, having no notes on them."""
    if params is None or not record.settings or _noted("metadata", path):
        return []
    now = settings_digests(params)
    differing = sorted(
        name
        for name in now.keys() | record.settings.keys()
        if now.get(name) != record.settings.get(name)
    )
    if not differing:
        return []
    return [
        f"{path} was made with another {', '.join(differing)} than asked for now, and .snakemake, "
        f"by which Snakemake would know, has no note on it. {remedy(path)}. Or keep these results "
        "and run in another directory (snakemake --directory)"
    ]


def _noted(kind: str, path: str) -> bool:
    """Whether Snakemake keeps a note of `kind` (metadata, incomplete) on the file `path`."""
    name = urlsafe_b64encode(path.encode()).decode()
    step = _LONGEST_NAME - 1
    parts = [name[i : i + step] for i in range(0, len(name), step)]
    return _NOTES.joinpath(kind, *(f"@{part}" for part in parts[:-1]), parts[-1]).exists()


def params_by_output(
    made: Iterable[tuple[str, Any]],
) -> Callable[[str], Mapping[str, Any] | None]:
    """A function from a result's path to the params of the job that makes it.

    `made` has, for each output of each rule, a regular expression of its path and the rule's
    params, of which some are functions of the wildcards.
    """
    made = list(made)

    def params_of(path: str) -> Mapping[str, Any] | None:
        for pattern, params in made:
            if match := re.fullmatch(pattern, path):
                wildcards = _Wildcards(match.groupdict())
                return {n: v(wildcards) if callable(v) else v for n, v in params.items()}
        return None

    return params_of


class _Wildcards:
    def __init__(self, values: Mapping[str, str]):
        self.__dict__.update(values)
