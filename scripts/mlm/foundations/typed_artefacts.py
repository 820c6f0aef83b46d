"""Typed artefacts: one dataclass for each JSON file of a stage, which writes it and reads it.

Those of a package are in its module `artefacts`, which imports nothing that computes: an edit of
what makes a file does not rerun its readers.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from mlm.foundations.artefacts import MadeFrom, read_artefact, write_artefact
from mlm.foundations.errors import MlmError, remedy

_PROBLEMS = {"missing": "is missing"}
_PROBLEMS |= dict.fromkeys(("extra_forbidden", "unexpected_keyword_argument"), "is not known")

#: Of a field that is left out of the file where it is its default.
OPTIONAL = {"optional": True}


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """What every artefact holds; a subclass adds what its own file does. `made_from` is recorded
    at the end of the job, empty if a script was run by hand."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    format_version: int = 1
    made_from: MadeFrom = field(default=MadeFrom(), metadata=OPTIONAL)

    @classmethod
    def read(cls, path: str | os.PathLike) -> Self:
        """The artefact in the file `path`. Raises MlmError if the file is damaged, was written by
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
            problems = "; ".join(
                f"the field {'.'.join(map(str, e['loc']))} {_PROBLEMS.get(e['type'], e['msg'])}"
                for e in error.errors()
            )
            raise MlmError(f"{path}: {problems}. {remedy(path)}") from None

    def write(self, path: str | os.PathLike) -> None:
        """Write the artefact to `path` with its seal, atomically."""
        write_artefact(path, as_json(self))


@cache
def _reader(kind: type[Artefact]) -> TypeAdapter:
    return TypeAdapter(kind)


def as_json(value: Any) -> Any:
    """`value` as it is written to its file: an object for each dataclass."""
    if is_dataclass(value):
        return {
            f.name: as_json(getattr(value, f.name))
            for f in fields(value)
            if not (f.metadata.get("optional") and getattr(value, f.name) == f.default)
        }
    if isinstance(value, Mapping):
        return {key: as_json(part) for key, part in value.items()}
    return [as_json(part) for part in value] if isinstance(value, list | tuple) else value
