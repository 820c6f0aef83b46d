"""What is below results/, checked before anything is planned.

Snakemake goes by dates and by its own notes in .snakemake. Neither sees a result that was
damaged, or replaced by an older one with its old date. Every artefact says what it was made
from, so that the results themselves can be checked.
"""

import json
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlm.foundations.artefacts import (
    OPERATIONAL,
    is_artefact,
    made_from,
    result_sha256,
    settings_digests,
)
from mlm.foundations.digests import LARGEST_READ, FileMemory
from mlm.foundations.errors import MlmError, remedy

_NOTES = Path(".snakemake")
#: Snakemake cuts the names of its notes to pieces of this length.
_LONGEST_NAME = 254

Params = Callable[[str], Mapping[str, Any] | None]


@dataclass
class Found:
    """What the checks of the results brought up.

    `problems`: damaged results and those from elsewhere, in words. `replaced`: results that are no
    longer what others were made from, though their dates do not show it, each with one of those.
    `consistent`: whether all inputs of all results are those that their records name.
    """

    problems: list[str] = field(default_factory=list)
    replaced: dict[str, str] = field(default_factory=dict)
    consistent: bool = True


def look_over(results: Iterable[str], params_of: Params, memory: FileMemory) -> Found:
    """Check each artefact among `results` against its record and its record against the rest.

    `results` are the paths of all that the configuration asks for, `params_of` gives the params
    with which a job would make a path now, and `memory` remembers the digests of files. Results
    that a kill left unfinished are skipped: Snakemake makes them again.
    """
    found, damaged = Found(), {}
    for path in sorted(set(results)):
        if Path(path).is_dir():
            # Snakemake takes it as done, and no job can write there.
            found.problems.append(
                f"{path} is damaged: it is a directory, and a file is expected. "
                f"{remedy(path).replace('rm ', 'rm -r ', 1)}"
            )
        elif is_artefact(path) and Path(path).is_file() and not _is_incomplete(path):
            try:
                record = memory.value("record", path, lambda p: asdict(made_from(p)))
            except MlmError as error:
                found.problems.append(str(error))
                continue
            damaged |= {
                other: f"{other} is damaged: it is not what was written beside {path} "
                f"({os.stat(other).st_size} bytes, recorded sha256 {sha256[:12]}…). {remedy(other)}"
                for other, sha256 in sorted(record["outputs"].items())
                if not _is_incomplete(other) and _differs(other, sha256, memory)
            }
            # A note on another version, which was here before, says nothing about this one.
            if _note(path).get("endtime") != os.stat(path).st_mtime:
                found.problems += _of_other_settings(path, record["settings"], params_of(path))
            _check_inputs_of(path, record["inputs"], memory, found)
    found.problems += damaged.values()
    return found


def give_copies_one_date() -> None:
    """Without any note of Snakemake's, give all results the date of the oldest, and so their
    benchmarks below logs/, by which Snakemake goes as well.

    A copy has the dates of the copying, and Snakemake makes again what is older than its inputs.
    """
    if any(any((_NOTES / kind).glob("*")) for kind in ("metadata", "incomplete")):
        return
    files = [f for place in ("results", "logs") for f in Path(place).rglob("*") if f.is_file()]
    oldest = min((os.stat(file).st_mtime_ns for file in files), default=0)
    for file in files:
        os.utime(file, ns=(oldest, oldest))


def _differs(path: str, sha256: str, memory: FileMemory) -> bool:
    # The job that reads a larger one checks it then.
    is_read_here = Path(path).is_file() and os.stat(path).st_size <= LARGEST_READ
    return is_read_here and memory.value("result", path, result_sha256) != sha256


def _check_inputs_of(
    path: str, inputs: Mapping[str, str], memory: FileMemory, found: Found
) -> None:
    """Note inputs of `path` that are not what it was made from, if Snakemake would not notice.

    If they are as Snakemake's note on `path` says, the note is on another version of `path`;
    otherwise they changed, but have dates from before it was made.
    """
    for other, sha256 in sorted(inputs.items()):
        if not _differs(other, sha256, memory):
            continue
        found.consistent = False
        noted = (_note(path).get("input_checksums") or {}).get(other)
        if noted == f"sha256:{memory.sha256(other)}":
            found.problems.append(
                f"{path} was made from another {other} (sha256 {sha256[:12]}…) than is there now: "
                f"it is an older version, or one from elsewhere. {remedy(path)}"
            )
        elif os.stat(other).st_mtime <= os.stat(path).st_mtime:
            found.replaced[other] = path


def _of_other_settings(
    path: str, recorded: Mapping[str, str], params: Mapping[str, Any] | None
) -> list[str]:
    """A sentence if `path` is of other settings or code, and Snakemake would take it as done.

    It has no note on it, or one that names today's params: a note on another version of `path`.
    """
    if params is None or not recorded:
        return []
    differing = sorted({name for name, _ in settings_digests(params).items() ^ recorded.items()})
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


def _is_incomplete(path: str) -> bool:
    return _place_of_note("incomplete", path).exists()


def _place_of_note(kind: str, path: str) -> Path:
    name = urlsafe_b64encode(path.encode()).decode()
    *before, last = re.findall(f".{{1,{_LONGEST_NAME}}}", name)
    return _NOTES.joinpath(kind, *(f"@{part}" for part in before), last)


def forget_removed(folder: str) -> None:
    """Remove Snakemake's notes on temporary files below `folder` that are gone.

    By these it would take jobs of another number, whose result is the same, for a change.
    """
    for note in (_NOTES / "metadata").glob("[!@]*"):
        with suppress(ValueError, OSError):
            path = urlsafe_b64decode(note.name).decode()
            if path.startswith(folder) and not Path(path).exists():
                note.unlink()


def params_by_output(made: Iterable[tuple[str, Any]], asked: Iterable[str]) -> Params:
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
