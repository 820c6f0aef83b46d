"""Results, checked before anything is planned against what they record of themselves.

Snakemake compares dates and its own notes in .snakemake/metadata. Neither shows that a result was
damaged, or replaced by an older one with its old date.
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

_NOTES = Path(".snakemake/metadata")

Params = Callable[[str], Mapping[str, Any] | None]


@dataclass
class ResultCheck:
    """`problems`: damaged results and those from elsewhere, in words. `changed`: results that are
    no longer what others were made from, each with one of those."""

    problems: list[str] = field(default_factory=list)
    changed: list[tuple[str, str]] = field(default_factory=list)


def check_backend(name: str) -> None:
    """Raise MlmError if Snakemake's persistence backend `name` writes no notes in files."""
    if name.lower() != "file":
        raise MlmError(
            f"--persistence-backend {name.lower()}: whether results are up to date is read from "
            "files in .snakemake/metadata as well, which this backend does not write. Leave the "
            "option out, also in profiles"
        )


def check_results(results: Iterable[str], params_of: Params, memory: FileMemory) -> ResultCheck:
    """Check each artefact among `results` against its record and its record against the rest.

    `results` are the paths of all that the configuration asks for, `params_of` gives the params
    with which a job would make a path now, and `memory` remembers the digests of files.
    """

    def differs(path: str, sha256: str) -> bool:
        # The job that reads a larger one checks it then.
        is_read_here = Path(path).is_file() and os.stat(path).st_size <= LARGEST_READ
        return is_read_here and memory.value("result", path, result_sha256) != sha256

    check, damaged = ResultCheck(), {}
    for path in sorted(set(results)):
        if not (is_artefact(path) and Path(path).is_file()):
            continue
        try:
            record = memory.value("record", path, lambda p: asdict(made_from(p)))
        except MlmError as error:
            check.problems.append(str(error))
            continue
        damaged |= {
            other: f"{other} is damaged: it is not what was written beside {path} "
            f"({os.stat(other).st_size} bytes, recorded sha256 {sha256[:12]}…). {remedy(other)}"
            for other, sha256 in sorted(record["outputs"].items())
            if differs(other, sha256)
        }
        note, params = _note(path), params_of(path)
        if params is not None and record["settings"]:
            check.problems += _of_other_settings(path, record["settings"], params, note)
        for other, sha256 in sorted(record["inputs"].items()):
            if differs(other, sha256):
                check.changed.append((other, path))
                # As the note says: then the note is on another version of `path`.
                noted = (note.get("input_checksums") or {}).get(other)
                if noted == f"sha256:{memory.sha256(other)}":
                    check.problems.append(
                        f"{path} was made from another {other} (sha256 {sha256[:12]}…) than is "
                        f"there now: it is an older version, or one from elsewhere. {remedy(path)}"
                    )
    check.problems += damaged.values()
    return check


def is_no_newer(path: str, other: str) -> bool:
    """Whether Snakemake, which compares dates, would not see that `path` changed after `other`."""
    return os.stat(path).st_mtime <= os.stat(other).st_mtime


def give_copies_one_date() -> None:
    """Without any note of Snakemake's, give all results the date of the oldest, and so their
    benchmarks below logs/, by which Snakemake goes as well.

    A copy has the dates of the copying, and Snakemake makes again what is older than its inputs.
    """
    if any(_NOTES.glob("*")):
        return
    files = [f for place in ("results", "logs") for f in Path(place).rglob("*") if f.is_file()]
    oldest = min((os.stat(file).st_mtime_ns for file in files), default=0)
    for file in files:
        os.utime(file, ns=(oldest, oldest))


def _of_other_settings(
    path: str, recorded: Mapping[str, str], params: Mapping[str, Any], note: Mapping[str, Any]
) -> list[str]:
    """A sentence if `path` is of other settings or code, and Snakemake would take it as done: it
    has no `note` on it, or one that names today's params, on another version of `path`."""
    differing = sorted({name for name, _ in settings_digests(params).items() ^ recorded.items()})
    noted = note.get("params")
    if not differing or (noted is not None and set(noted) != set(map(repr, params.values()))):
        return []
    return [
        f"{path} was made with another {', '.join(differing)} than is asked for now, and "
        f"Snakemake's notes in .snakemake are not on this version. {remedy(path)}. Or keep these "
        "results and run in another directory (snakemake --directory)"
    ]


def _note(path: str) -> dict[str, Any]:
    """Snakemake's note on the job that made `path`; empty if it has none."""
    try:
        note = json.loads((_NOTES / urlsafe_b64encode(path.encode()).decode()).read_bytes())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def forget_removed(folder: str) -> None:
    """Remove Snakemake's notes on temporary files below `folder` that are gone.

    By these it would take jobs of another number, whose result is the same, for a change.
    """
    for note in _NOTES.glob("[!@]*"):
        with suppress(ValueError, OSError):
            path = urlsafe_b64decode(note.name).decode()
            if path.startswith(folder) and not Path(path).exists():
                note.unlink()


def params_by_output(made: Iterable[tuple[str, Any]], wanted: Iterable[str]) -> Params:
    """A function from a result's path to the params of the job that makes it, but `operational`.

    None for a result that is not among `wanted`. `made` has, for each output of each rule, a
    regular expression for its path and the rule's params, some of which are functions of the
    wildcards.
    """
    made, wanted = list(made), set(wanted)

    def params_of(path: str) -> Mapping[str, Any] | None:
        for pattern, params in made if path in wanted else ():
            if match := re.fullmatch(pattern, path):
                wildcards = SimpleNamespace(**match.groupdict())
                compared = {n: v for n, v in params.items() if n != OPERATIONAL}
                return {n: v(wildcards) if callable(v) else v for n, v in compared.items()}
        return None

    return params_of
