"""What the configuration is made of: sections of typed fields with bounds."""

import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

SPLITS = ("train", "validation", "test")


def wrong_with_name(path: str) -> str | None:
    """The end of a sentence on the name `path` of a file or a directory; None if it is usable:
    Snakemake reads {run} as a wildcard and <results> as a variable, and no record holds the rest.
    """
    if any(char in "{}<>" or unicodedata.category(char) in ("Cc", "Cs") for char in path):
        return "has one of {}<>, a control character or no UTF-8 in its name; rename it"
    return None


def wrong_with_file(path: str) -> str | None:
    """A sentence if there is no file `path`, or its name cannot be used; None if there is one."""
    if problem := wrong_with_name(path):
        return f"{path} {problem}"
    if os.path.isfile(path):
        return None
    what = "a directory" if os.path.isdir(path) else "not there"
    return (
        f"{path} is {what}; name a file, relative to the working directory ({os.getcwd()}), or "
        f"leave it out{unexpanded(path)}"
    )


def _not_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("boolean", "a boolean is no number")
    return value


def _usable_name(path: str) -> str:
    if problem := wrong_with_name(path):
        raise ValueError(f"{path} {problem}")
    return path


#: Every number has both bounds: beyond these, libraries fail with errors of their own.
LARGEST = 10**9
NoBoolean = BeforeValidator(_not_boolean)
Count = Annotated[int, Field(ge=1, le=LARGEST), NoBoolean]
TokenCount = Annotated[int, Field(ge=1, le=10**15), NoBoolean]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1), NoBoolean]
Fraction = Annotated[float, Field(ge=0, le=1), NoBoolean]
ProperFraction = Annotated[float, Field(gt=0, lt=1), NoBoolean]
BelowOne = Annotated[float, Field(ge=0, lt=1), NoBoolean]
Positive = Annotated[float, Field(gt=0, le=LARGEST), NoBoolean]
NotNegative = Annotated[float, Field(ge=0, le=LARGEST), NoBoolean]
#: Files of a split, each with its number of five digits in its name.
FileCount = Annotated[int, Field(ge=1, le=99_999), NoBoolean]
Threads = Annotated[int, Field(ge=1, le=1024), NoBoolean]
Text = Annotated[str, Field(min_length=1)]
#: A name of a file or a directory that Snakemake and records can hold.
FilePath = Annotated[Text, AfterValidator(_usable_name)]
#: A name that can be part of a path.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
#: What is named twice counts once.
Distinct = AfterValidator(lambda items: list(dict.fromkeys(items)))


def with_nulls(value: Any) -> Any:
    """`value` with None for null, which a nested `--config` holds as text; and with text for keys
    that are numbers, as another workflow's YAML has them."""
    if isinstance(value, Mapping):
        items = value.items()
        return {k if isinstance(k, bool) else str(k): with_nulls(inner) for k, inner in items}
    return None if value in ("null", "~") else value


class Section(BaseModel):
    """A section of the configuration. Unknown keys are errors. Values convert to the types of their
    keys if that loses nothing: `1e-4` is text in YAML, and all that a nested `--config` holds."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, coerce_numbers_to_str=True
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, values: Any) -> Any:
        return with_nulls(values)

    def contradictions(self) -> Iterator[str]:
        """A line for each contradiction among the keys of this section, beginning with a key."""
        return iter(())

    def all_contradictions(self, path: str) -> Iterator[str]:
        """The contradictions of the section, which is at `path`, and of those that it holds."""
        yield from (f"{path}.{line}" for line in self.contradictions())
        for name, value in self:
            if isinstance(value, Section):
                yield from value.all_contradictions(f"{path}.{name}")

    def with_defaults(self, *keys: str) -> Self:
        """The section with the defaults of `keys`."""
        fields = type(self).model_fields
        defaults = {key: fields[key].get_default(call_default_factory=True) for key in keys}
        return self.model_copy(update=defaults)

    def only(self, *keys: str) -> Self:
        """The section with the defaults of all other keys, for a job that reads `keys` alone."""
        return self.with_defaults(*(key for key in type(self).model_fields if key not in keys))

    def as_param(self, *left_out: str) -> dict[str, Any]:
        """The section as a rule's param, from which the job makes it again (`model_validate`): in
        plain values, and sorted, so that the order of the configuration is no change."""
        return canonical(self.model_dump(exclude=set(left_out)))


def canonical(value: Any) -> Any:
    """`value` as it comes back from JSON, with sorted keys: lists for tuples."""
    return json.loads(json.dumps(value, sort_keys=True))


def section_in(hint: Any) -> type[Section] | None:
    """The class of the section, or of the sections in a list or dictionary, that `hint` annotates;
    None of a plain value."""
    if isinstance(hint, type) and issubclass(hint, Section):
        return hint
    return next(filter(None, map(section_in, get_args(hint))), None)


def section(model: type[Section]) -> Any:
    """A field that holds the section `model`, all defaults unless something in it is set."""
    return Field(default_factory=model)


def hub_id(place: str) -> tuple[str, str] | None:
    """The repository owner/name and the commit of `place`, if that is owner/name@COMMIT."""
    match = re.fullmatch(r"([\w.-]+/[\w.-]+)@([0-9a-f]{40})", place)
    return (match[1], match[2]) if match else None


def unexpanded(path: str) -> str:
    """The end of a message on the missing `path` if a shell would have expanded it."""
    if path.startswith("~") or "$" in path or "{" in path:
        return "; ~, $NAME and {a,b} are not expanded: write the paths out"
    return ""


def unpinned(key: str, revision: str | None) -> Iterator[str]:
    """A line if the `revision`, set by `key`, is not a commit."""
    if not re.fullmatch(r"[0-9a-f]{40}", revision or ""):
        reason = f"{revision!r} is not a commit id" if revision else "missing"
        yield (
            f"{key}: {reason}; expected the 40 hexadecimal digits of a commit, since a branch or a "
            "tag can move. They are on the repository's page on the Hub, under Files, History"
        )
