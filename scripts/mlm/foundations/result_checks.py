"""What is below results/, checked before anything is planned.

Snakemake goes by dates and by its own notes in .snakemake. Neither sees a result that was
damaged, or replaced by an older one with its old date. Every artefact says what it was made
from, so that the results themselves can be checked.
"""

import json
import os
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlm.foundations.artefacts import (
    OPERATIONAL,
    MadeFrom,
    is_artefact,
    made_from,
    read_artefact,
    result_sha256,
    settings_digests,
)
from mlm.foundations.digests import LARGEST_READ, FileMemory
from mlm.foundations.errors import MlmError, remedy

_NOTES = Path(".snakemake")
#: Snakemake cuts the names of its notes to pieces of this length, less one.
_LONGEST_NAME = 255
#: Nanoseconds between the dates of two jobs: Snakemake's seconds are floating point numbers.
_BETWEEN_JOBS = 1_000_000


@dataclass
class Found:
    """What the checks of the results brought up.

    `problems`: damaged results and those from elsewhere, in words. `replaced`: results that are
    no longer what others were made from, though their dates do not show it, each with a sentence.
    `copied`: where the results came without Snakemake's notes and are what their records say, all
    files of each job, in the order of making.
    """

    problems: list[str] = field(default_factory=list)
    replaced: dict[str, str] = field(default_factory=dict)
    copied: list[list[str]] = field(default_factory=list)


def look_over(
    results: Iterable[str],
    params_of: Callable[[str], Mapping[str, Any] | None],
    memory: FileMemory,
) -> Found:
    """Check each artefact among `results` against its record and its record against the rest.

    `results` are the paths of all that the configuration asks for, `params_of` gives the params
    with which a job would make a path now, and `memory` remembers the digests of files. Results
    that a kill left unfinished are skipped: Snakemake makes them again.
    """
    found, damaged, jobs, without_notes = Found(), {}, {}, True
    for path in sorted(set(results)):
        if Path(path).is_dir():
            # Snakemake takes it as done, and no job can write there.
            found.problems.append(
                f"{path} is damaged: it is a directory, and a file is expected. "
                f"{remedy(path).replace('rm ', 'rm -r ', 1)}"
            )
        elif is_artefact(path) and Path(path).is_file():
            note = _note(path)
            without_notes &= not note and not _noted("incomplete", path)
            if _noted("incomplete", path):
                continue
            try:
                record = made_from(memory.value("artefact", path, _readable))
            except MlmError as error:
                found.problems.append(str(error))
                continue
            damaged |= _damaged(path, record.outputs, memory)
            without_notes &= _as_recorded(record, memory)
            jobs.setdefault(repr(record), (record, []))[1].append(path)
            # A note on another version, which was here before, says nothing about this one.
            if note.get("endtime") != Path(path).stat().st_mtime:
                found.problems += of_other_settings(path, record, params_of(path))
            _check_inputs_of(path, record.inputs, note, memory, found)
    found.problems += damaged.values()
    if without_notes and not found.problems:
        found.copied = _in_order_of_making(jobs.values())
    return found


def date_in_order(jobs: Iterable[Iterable[str]]) -> None:
    """Give the files of each job a later date than those of the jobs before it.

    A copy has the dates of the copying, and Snakemake makes again what is older than its inputs. To
    it, a job is as old as the oldest of its results and its benchmark below logs/: all dates given
    here are before those.
    """
    jobs = [list(files) for files in jobs]
    there = [*chain.from_iterable(jobs), *Path("logs").rglob("*")]
    oldest = min((os.stat(file).st_mtime_ns for file in there), default=0)
    for number, files in enumerate(jobs):
        date = oldest - (len(jobs) - number) * _BETWEEN_JOBS
        for file in files:
            os.utime(file, ns=(date, date))


def _differs(path: str, sha256: str, memory: FileMemory) -> bool:
    """Whether a file is there, not too large to be read here, and of another digest."""
    place = Path(path)
    if not place.is_file() or place.stat().st_size > LARGEST_READ:
        return False
    return memory.value("result", path, result_sha256) != sha256


def _as_recorded(record: MadeFrom, memory: FileMemory) -> bool:
    """Whether all that a job read and wrote is there and has the digests of its record."""
    return bool(record.rule) and all(
        Path(file).is_file()
        and Path(file).stat().st_size <= LARGEST_READ
        and not _differs(file, sha256, memory)
        for file, sha256 in {**record.inputs, **record.outputs}.items()
    )


def _in_order_of_making(jobs: Iterable[tuple[MadeFrom, list[str]]]) -> list[list[str]]:
    """All files of each job, from its record and its artefacts, makers before users."""
    files = [(record, [*record.outputs, *artefacts]) for record, artefacts in jobs]
    maker = {file: number for number, (_, made) in enumerate(files) for file in made}
    users = {
        number: {maker[file] for file in record.inputs if file in maker}
        for number, (record, _) in enumerate(files)
    }
    return [files[number][1] for number in TopologicalSorter(users).static_order()]


def _readable(path: Path) -> dict:
    """The record of an artefact, and nothing else. Raises MlmError if it is damaged."""
    content = read_artefact(path)
    return {key: content[key] for key in ("made_from",) if key in content}


def _damaged(path: str, outputs: Mapping[str, str], memory: FileMemory) -> dict[str, str]:
    # The job that reads a larger one checks it then.
    return {
        other: f"{other} is damaged: it is not what was written beside {path} "
        f"({Path(other).stat().st_size} bytes, recorded sha256 {sha256[:12]}…). {remedy(other)}"
        for other, sha256 in sorted(outputs.items())
        if not _noted("incomplete", other) and _differs(other, sha256, memory)
    }


def _check_inputs_of(
    path: str,
    inputs: Mapping[str, str],
    note: Mapping[str, Any],
    memory: FileMemory,
    found: Found,
) -> None:
    """Note inputs of `path` that are not what it was made from, if Snakemake would not notice.

    If they are as Snakemake's note on `path` says, the note is on another version of `path`;
    otherwise they changed, but have dates from before it was made.
    """
    for other, sha256 in sorted(inputs.items()):
        if not _differs(other, sha256, memory):
            continue
        noted = (note.get("input_checksums") or {}).get(other)
        if noted == f"sha256:{memory.sha256(other)}":
            found.problems.append(
                f"{path} was made from another {other} (sha256 {sha256[:12]}…) than is there now: "
                f"it is an older version, or one from elsewhere. {remedy(path)}"
            )
        elif Path(other).stat().st_mtime <= Path(path).stat().st_mtime:
            found.replaced[other] = (
                f"{other} is another than the one that {path} was made from, though its date is "
                "older: what follows from it is made again"
            )


def of_other_settings(path: str, record: MadeFrom, params: Mapping[str, Any] | None) -> list[str]:
    """A sentence if `path` is of other settings or code, and Snakemake would take it as done.

    It has no note on it, or one that names today's params: a note on another version of `path`.
    """
    if params is None or not record.settings:
        return []
    now = settings_digests(params)
    differing = sorted(
        name
        for name in now.keys() | record.settings.keys()
        if now.get(name) != record.settings.get(name)
    )
    noted = _note(path).get("params")
    if not differing or (noted is not None and set(noted) != set(map(repr, params.values()))):
        return []
    return [
        f"{path} was made with another {', '.join(differing)} than is asked for now, and "
        f"Snakemake's notes in .snakemake are not on this version. {remedy(path)}. Or keep these "
        "results and run in another directory (snakemake --directory)"
    ]


def _note(path: str) -> dict[str, Any]:
    """What Snakemake noted of the job that made `path`; empty if it has no note."""
    try:
        note = json.loads(_place_of_note("metadata", path).read_bytes())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def forget_removed(paths: Iterable[str]) -> None:
    """Remove Snakemake's notes on those of the temporary `paths` that are gone.

    By these it would take jobs of another number, whose result is the same, for a change.
    """
    for path in paths:
        if not Path(path).exists():
            _place_of_note("metadata", path).unlink(missing_ok=True)


def _noted(kind: str, path: str) -> bool:
    """Whether Snakemake keeps a note of `kind` (metadata, incomplete) on the file `path`."""
    return _place_of_note(kind, path).exists()


def _place_of_note(kind: str, path: str) -> Path:
    name = urlsafe_b64encode(path.encode()).decode()
    step = _LONGEST_NAME - 1
    parts = [name[i : i + step] for i in range(0, len(name), step)]
    return _NOTES.joinpath(kind, *(f"@{part}" for part in parts[:-1]), parts[-1])


def params_by_output(
    made: Iterable[tuple[str, Any]], asked: Iterable[str]
) -> Callable[[str], Mapping[str, Any] | None]:
    """A function from a result's path to the params of the job that makes it, but `operational`.

    None for a result that is not among `asked`. `made` has, for each output of each rule, a
    regular expression for its path and the rule's params, some of which are functions of the
    wildcards.
    """
    made, asked = list(made), set(asked)

    def params_of(path: str) -> Mapping[str, Any] | None:
        for pattern, params in made if path in asked else ():
            if match := re.fullmatch(pattern, path):
                wildcards = SimpleNamespace(**match.groupdict())
                compared = {n: v for n, v in params.items() if n != OPERATIONAL}
                return {n: v(wildcards) if callable(v) else v for n, v in compared.items()}
        return None

    return params_of
