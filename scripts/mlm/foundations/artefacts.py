"""The JSON artefacts of the stages: sealed, and with a record of what they were made from.

Every artefact holds a digest of its own content, the seal. At the end of a job, `made_from` is
added to it: the digests of the job's inputs, of its settings and code, and of the files that
it wrote beside the artefact.
"""

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

from mlm.foundations.atomic import write_json
from mlm.foundations.digests import file_sha256, value_sha256
from mlm.foundations.errors import MlmError, remedy

_SEAL, _MADE_FROM = "seal", "made_from"

#: Columns of tables that hold seconds or speeds.
_TIMED = ("initialisation_seconds", "tokens_per_second")
_NUMBER = re.compile(r"[0-9.e+-]*")

#: The type of a param that changes no byte: no record names it, and Snakemake, which compares plain
#: values alone, does not see it change.
NotCompared = SimpleNamespace


def write_artefact(path: str | os.PathLike, value: dict) -> None:
    """Write `value` to `path` as canonical JSON with its seal, atomically."""
    # What a reader will see: text for every key, lists for tuples.
    content = json.loads(json.dumps({k: v for k, v in value.items() if k != _SEAL}))
    write_json(path, content | {_SEAL: value_sha256(content)})


def read_artefact(path: str | os.PathLike) -> dict:
    """The content of the artefact `path`, without its seal.

    Raises MlmError, with the way to have it made again, if the file is missing, empty, cut,
    no JSON object, or not what its maker wrote.
    """
    try:
        content = json.loads(Path(path).read_bytes())
        if not isinstance(content, dict):
            damage = f"it holds {type(content).__name__}, an object is expected"
        elif (seal := content.pop(_SEAL, None)) is None:
            damage = "it has no seal of its content"
        elif seal != value_sha256(content):
            damage = (
                f"its content is not what was written (the seal {str(seal)[:12]}… does not fit)"
            )
        else:
            return content
    except FileNotFoundError:
        raise MlmError(f"{path} is missing. {remedy(path)}") from None
    except ValueError as error:  # also of NaN, which no artefact holds
        damage = f"not readable as JSON ({error})"
    raise MlmError(f"{path} is damaged: {damage}. {remedy(path)}")


def result_sha256(path: str | os.PathLike) -> str:
    """The sha256 of a result: of a table with times or speeds, without those numbers."""
    if not str(path).endswith(".csv"):
        return file_sha256(path)
    with suppress(ValueError, StopIteration):
        text = Path(path).read_bytes().decode("utf-8")
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        if timed := {i for i, name in enumerate(header) if name in _TIMED}:
            lines = [
                ["" if i in timed and _NUMBER.fullmatch(c) else c for i, c in enumerate(row)]
                for row in rows
            ]
            return value_sha256([header, *lines])
    return file_sha256(path)


def portable(path: str | os.PathLike) -> str:
    """`path` from its last directory `results` on: the same in every working directory."""
    parts = PurePath(path).parts
    last = max((i for i, part in enumerate(parts) if part == "results"), default=0)
    return str(PurePath(*parts[last:]))


@dataclass(frozen=True)
class MadeFrom:
    """What an artefact was made from. All digests are sha256, by portable path or name.

    `settings` has a short digest per param; `code` is None for an artefact without a record.
    """

    rule: str = ""
    code: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)


def made_from(path: str | os.PathLike) -> MadeFrom:
    """The record in the artefact `path`; empty if a script was run by hand. Raises MlmError as
    `read_artefact` does, and for a record with other fields."""
    record = read_artefact(path).get(_MADE_FROM, {})
    try:
        return MadeFrom(**record)
    except TypeError:
        known = ", ".join(known.name for known in fields(MadeFrom))
        raise MlmError(
            f"{path} is damaged: its record {_MADE_FROM} does not have the fields {known}. "
            f"{remedy(path)}"
        ) from None


def settings_digests(params: Mapping[str, Any]) -> dict[str, str]:
    """A short digest of each param of a job that makes a difference to its results, by name."""
    return {n: value_sha256(value)[:16] for n, value in compared(params).items()}


def compared(params: Mapping[str, Any]) -> dict[str, Any]:
    """The params that make a difference to results."""
    return {n: value for n, value in params.items() if not isinstance(value, NotCompared)}


def is_artefact(path: str | os.PathLike) -> bool:
    """Whether `path` is one of the JSON files that are sealed (a tokenizer's are not)."""
    name = PurePath(path).name
    return name.endswith(".json") and name not in _OTHER_JSON


#: JSON files in layouts of others, which have no place for a seal.
_OTHER_JSON = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json"),
)


def check_inputs(paths: Iterable[str], unread: Iterable[str] = ()) -> dict[str, str]:
    """Check a job's inputs against the records of their makers; their sha256 by portable path.

    Of the `paths` of all inputs those below results/ are checked that a record among them names.
    Of the ones in `unread`, which the job's own code checks or does not open, the digests are
    taken from the records.

    Raises MlmError if an input is damaged or not what its maker wrote, or two of them were made
    from different versions of the same file.
    """
    results = {portable(path): str(path) for path in paths}
    results = {name: path for name, path in results.items() if name.startswith("results/")}
    # By name: its sha256, who says so, and whether that is its maker.
    said: dict[str, tuple[str, str, bool]] = {}
    for by, path in sorted(results.items()):
        if not is_artefact(path):
            continue
        record = made_from(path)
        makers = {by: file_sha256(path), **record.outputs}
        for name, sha256, is_maker in (
            *((name, sha256, True) for name, sha256 in sorted(makers.items())),
            *((name, sha256, False) for name, sha256 in sorted(record.inputs.items())),
        ):
            other, said_by, said_by_maker = said.get(name, (sha256, by, is_maker))
            if other != sha256:
                stale = [b for b, m in ((by, is_maker), (said_by, said_by_maker)) if not m] or [by]
                raise MlmError(
                    f"Results that do not belong together: {by} goes with another {name} (sha256 "
                    f"{sha256[:12]}…) than {said_by} (sha256 {other[:12]}…). {remedy(*stale)}"
                )
            if is_maker or name not in said:
                said[name] = sha256, by, is_maker
    unread = {portable(path) for path in unread}
    return {
        name: said[name][0] if name in unread else _checked(path, said[name][0])
        for name, path in sorted(results.items())
        if name in said
    }


def check_outputs(
    artefact: str | os.PathLike, paths: Iterable[str | os.PathLike]
) -> dict[str, str]:
    """The sha256, by path, of those of `paths` that the record of `artefact` beside them names.

    For files that a job finds through another than the artefact that vouches for them. Raises
    MlmError if one is not what was written.
    """
    recorded = made_from(artefact).outputs
    named = {str(path): recorded.get(portable(path)) for path in paths}
    return {path: _checked(path, sha256) for path, sha256 in named.items() if sha256 is not None}


def _checked(path: str, recorded: str) -> str:
    """The sha256 of the result `path`; raises MlmError if it is not the `recorded` one."""
    if (found := result_sha256(path)) != recorded:
        raise MlmError(
            f"{path} is damaged: it is not what was written (sha256 {found[:12]}…, recorded "
            f"{recorded[:12]}…). {remedy(portable(path))}"
        )
    return found


def record_job(
    rule: str,
    inputs: Mapping[str, str],
    params: Mapping[str, Any],
    outputs: Iterable[str],
    known: Mapping[str, str] | None = None,
) -> None:
    """Add what they were made from to the artefacts among a job's `outputs`.

    `inputs` comes from `check_inputs`; `params` are the job's, with its code digests as `code`.
    `known` are sha256 of outputs that the job itself has computed of what they hold.
    """
    outputs = list(outputs)
    artefacts = [path for path in outputs if is_artefact(path)]
    if not artefacts:
        return
    known = known or {}
    record = {
        "rule": rule,
        "code": value_sha256(params.get("code", {})),
        "settings": settings_digests(params),
        "inputs": dict(inputs),
        "outputs": {
            portable(path): known.get(path) or result_sha256(path)
            for path in outputs
            if path not in artefacts
        },
    }
    for path in artefacts:
        write_artefact(path, read_artefact(path) | {_MADE_FROM: record})
