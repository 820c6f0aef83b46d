"""The JSON artefacts of the stages: typed, sealed, and with a record of what they were made from.

Each JSON file of a stage has one dataclass, which writes and reads it. Those of a package are in
its module `artefacts`, which imports nothing that computes: an edit of what makes a file does not
rerun its readers. Every artefact holds a digest of its content, the seal. At the end of a job
`made_from` is added: the digests of the job's inputs, settings and code, and of its other outputs.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from mlm.foundations.atomic import write_json
from mlm.foundations.digests import value_sha256
from mlm.foundations.errors import MlmError, remedy

_SEAL, _MADE_FROM = "seal", "made_from"
#: JSON files in layouts of others, which have no place for a seal.
_UNSEALED = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json")
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
