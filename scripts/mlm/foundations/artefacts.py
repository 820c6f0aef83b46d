"""The JSON artefacts of the stages: typed, sealed, and with a record of what they were made from.

Each JSON file of a stage has one dataclass, which writes and reads it. Those of a package are in
its module `artefacts`, which imports nothing that computes: an edit of what makes a file does not
rerun its readers. Every artefact holds a digest of its content, the seal. At the end of a job
`made_from` is added: the digests of the job's inputs, settings and code, and of its other outputs.
"""

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from mlm.foundations.atomic import write_json
from mlm.foundations.digests import file_sha256, value_sha256
from mlm.foundations.errors import MlmError, remedy

_SEAL, _MADE_FROM = "seal", "made_from"
#: JSON files in layouts of others, which have no place for a seal.
_UNSEALED = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json")
#: Columns of tables that hold seconds or speeds.
_TIMED = ("initialisation_seconds", "tokens_per_second")
_NUMBER = re.compile(r"[0-9.e+-]*")
#: The type of a param that changes no byte: no record names it, and Snakemake, which compares plain
#: values alone, does not see it change.
NotCompared = SimpleNamespace
#: Metadata of a field that the file leaves out where it has its default.
OPTIONAL = {"optional": True}


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


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """The fields of every artefact; a subclass adds those of its file. `made_from` is recorded at
    the end of the job, empty if a script was run by hand."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    format_version: int = 1
    made_from: MadeFrom = field(default=MadeFrom(), metadata=OPTIONAL)

    @classmethod
    def read(cls, path: str | os.PathLike) -> Self:
        """Return the artefact in the file `path`. Raises MlmError if the file is damaged, of
        another version of the workflow, or its fields are not those of this type."""
        content = read_artefact(path)
        version = content.get("format_version", "none")
        if version != cls.format_version:
            raise MlmError(
                f"{path}: format version {cls.format_version} was expected, found {version}; "
                f"another version of the workflow wrote it. {remedy(path)}"
            )
        try:
            return _reader(cls).validate_python(content)
        except ValidationError as error:
            faults = (f"field {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise MlmError(f"{path}: {'; '.join(faults)}. {remedy(path)}") from None

    def write(self, path: str | os.PathLike) -> None:
        """Write the artefact to `path` with its seal, atomically."""
        write_artefact(path, as_json(self))


@cache
def _reader(kind: type[Artefact]) -> TypeAdapter:
    return TypeAdapter(kind)


def as_json(value: Any) -> Any:
    """Return `value` as it is written to its file: an object for each dataclass."""
    if is_dataclass(value):
        return {
            f.name: as_json(getattr(value, f.name))
            for f in fields(value)
            if not (f.metadata.get("optional") and getattr(value, f.name) == f.default)
        }
    if isinstance(value, Mapping):
        return {key: as_json(part) for key, part in value.items()}
    return [as_json(part) for part in value] if isinstance(value, list | tuple) else value


def write_artefact(path: str | os.PathLike, value: dict) -> None:
    """Write `value` to `path` as canonical JSON with its seal, atomically."""
    # As a reader will see it: text for every key, lists for tuples.
    content = json.loads(json.dumps({k: v for k, v in value.items() if k != _SEAL}))
    write_json(path, content | {_SEAL: value_sha256(content)})


def read_artefact(path: str | os.PathLike) -> dict:
    """Return the content of the artefact `path`, without its seal. Raises MlmError, with the way to
    have it made again, if the file is missing, or not what its maker wrote."""
    try:
        content = json.loads(Path(path).read_bytes())
        if content.pop(_SEAL) == value_sha256(content):
            return content
        damage = "its content does not fit its seal"
    except FileNotFoundError:
        raise MlmError(f"{path} is missing. {remedy(path)}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        damage = f"not readable as a sealed JSON object ({type(error).__name__}: {error})"
    raise MlmError(f"{path} is damaged: {damage}. {remedy(path)}")


def made_from(path: str | os.PathLike) -> MadeFrom:
    """Return the record in the artefact `path`; empty if a script was run by hand. Raises MlmError
    as `read_artefact` does, and for a record with other fields."""
    try:
        return MadeFrom(**read_artefact(path).get(_MADE_FROM, {}))
    except TypeError as error:
        raise MlmError(f"{path} is damaged: {_MADE_FROM}: {error}. {remedy(path)}") from None


def is_artefact(path: str | os.PathLike) -> bool:
    """Whether `path` is one of the JSON files that are sealed (a tokenizer's are not)."""
    name = PurePath(path).name
    return name.endswith(".json") and name not in _UNSEALED


def result_sha256(path: str | os.PathLike) -> str:
    """Return the sha256 of a result: of a table with times or speeds, without those numbers."""
    with suppress(ValueError, StopIteration):
        text = Path(path).read_bytes().decode() if str(path).endswith(".csv") else ""
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        if timed := {i for i, name in enumerate(header) if name in _TIMED}:
            lines = [
                ["" if i in timed and _NUMBER.fullmatch(c) else c for i, c in enumerate(row)]
                for row in rows
            ]
            return value_sha256([header, *lines])
    return file_sha256(path)


def portable(path: str | os.PathLike) -> str:
    """Return `path` from its last directory `results` on: the same in every working directory."""
    parts = PurePath(path).parts
    last = max((i for i, part in enumerate(parts) if part == "results"), default=0)
    return str(PurePath(*parts[last:]))


def compared(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params that make a difference to results."""
    return {n: value for n, value in params.items() if not isinstance(value, NotCompared)}


def settings_digests(params: Mapping[str, Any]) -> dict[str, str]:
    """Return a short digest of each param of a job that makes a difference to its results."""
    return {n: value_sha256(value)[:16] for n, value in compared(params).items()}


def check_inputs(paths: Iterable[str], unread: Iterable[str] = ()) -> dict[str, str]:
    """Check a job's inputs against the records of their makers; return their sha256 by path.

    Of all input `paths`, those below results/ are checked that a record among them names. Of the
    ones in `unread`, which the job itself checks or does not open, the recorded digests are taken.
    Raises MlmError if an input is damaged or not what its maker wrote, or two of them were made
    from different versions of the same file.
    """
    results = {portable(path): str(path) for path in paths}
    results = {name: path for name, path in results.items() if name.startswith("results/")}
    # By name: its sha256, the artefact that records it, and whether that was made with it.
    claims: dict[str, tuple[str, str, bool]] = {}
    for by, path in sorted(results.items()):
        if not is_artefact(path):
            continue
        record = made_from(path)
        written = {by: file_sha256(path), **record.outputs}
        for digests, is_maker in ((written, True), (record.inputs, False)):
            for name, sha256 in sorted(digests.items()):
                other, claimed_by, by_maker = claims.get(name, (sha256, by, is_maker))
                if other != sha256:
                    stale = [b for b, m in ((by, is_maker), (claimed_by, by_maker)) if not m]
                    raise MlmError(
                        f"Results that do not belong together: {by} goes with another {name} "
                        f"(sha256 {sha256[:12]}…) than {claimed_by} (sha256 {other[:12]}…). "
                        f"{remedy(*(stale or [by]))}"
                    )
                if is_maker or name not in claims:
                    claims[name] = sha256, by, is_maker
    unread = set(map(portable, unread))
    return {
        name: claims[name][0] if name in unread else _checked(path, claims[name][0])
        for name, path in sorted(results.items())
        if name in claims
    }


def check_outputs(
    artefact: str | os.PathLike, paths: Iterable[str | os.PathLike]
) -> dict[str, str]:
    """Return the sha256, by path, of those of `paths` that the record of `artefact` beside them
    names. Raises MlmError if one is not what was written."""
    recorded = made_from(artefact).outputs
    named = {str(path): recorded.get(portable(path)) for path in paths}
    return {path: _checked(path, sha256) for path, sha256 in named.items() if sha256 is not None}


def _checked(path: str, recorded: str) -> str:
    """Return the sha256 of the result `path`; raises MlmError if it is not the `recorded` one."""
    if (sha256 := result_sha256(path)) != recorded:
        raise MlmError(
            f"{path} is damaged: it is not what was written (sha256 {sha256[:12]}…, recorded "
            f"{recorded[:12]}…). {remedy(portable(path))}"
        )
    return sha256


def record_job(
    rule: str,
    inputs: Mapping[str, str],
    params: Mapping[str, Any],
    outputs: Iterable[str],
    known: Mapping[str, str] = {},
) -> None:
    """Add what they were made from to the artefacts among a job's `outputs`.

    `inputs` comes from `check_inputs`; `params` are the job's, with its code digests as `code`.
    `known` has the sha256 of outputs that the job itself has computed.
    """
    outputs = list(outputs)
    artefacts = [path for path in outputs if is_artefact(path)]
    others = [path for path in outputs if path not in artefacts] if artefacts else []
    digests = {portable(path): known.get(path) or result_sha256(path) for path in others}
    code, settings = value_sha256(params.get("code", {})), settings_digests(params)
    record = MadeFrom(rule, code, settings, dict(inputs), digests)
    for path in artefacts:
        write_artefact(path, read_artefact(path) | {_MADE_FROM: as_json(record)})
