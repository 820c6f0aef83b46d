"""What the sections of the configuration are made of: strict fields, their bounds, and words."""

import difflib
import json
import re
import types
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

SPLITS = ("train", "validation", "test")

#: Every number has both bounds: beyond these, libraries fail with errors of their own.
LARGEST = 10**9
Count = Annotated[int, Field(ge=1, le=LARGEST)]
NotNegativeCount = Annotated[int, Field(ge=0, le=LARGEST)]
TokenCount = Annotated[int, Field(ge=1, le=10**15)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Text = Annotated[str, Field(min_length=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
ProperFraction = Annotated[float, Field(gt=0, lt=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, le=LARGEST)]
NotNegative = Annotated[float, Field(ge=0, le=LARGEST)]
ResampleCount = Annotated[int, Field(ge=100, le=1_000_000)]
#: Files of a split, each with its number of five digits in its name.
FileCount = Annotated[int, Field(ge=1, le=99_999)]
Threads = Annotated[int, Field(ge=1, le=1024)]

_BOUNDS = {"ge": " from {}", "gt": " above {}", "le": " to {}", "lt": " to below {}"}


class Section(BaseModel):
    """A section of the configuration. Types are strict, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

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

    @classmethod
    def hints(cls) -> dict[str, Any]:
        """The annotation of each key, with its bounds."""
        return get_type_hints(cls, include_extras=True)


class FileCounts(Section):
    train: FileCount = 1
    """Number of files of train. A job that reads a part of the split reads only those with it."""
    validation: FileCount = 1
    test: FileCount = 1


class MaskedShares(Section):
    """Which tokens are predicted, and what replaces them."""

    mlm_probability: ProperFraction = 0.15
    """Share of the tokens to predict."""
    mask_token: Fraction = 0.8
    """Share of the chosen tokens replaced by the mask token."""
    random_token: Fraction = 0.1
    """Share of the chosen tokens replaced by a random token; the rest stay visible."""

    def contradictions(self) -> Iterator[str]:
        replaced = self.mask_token + self.random_token
        if replaced > 1 + 1e-9:
            yield f"mask_token: it and random_token add up to {replaced:g}, more than 1"

    @property
    def replacement(self) -> str:
        """Percent of the chosen tokens that are masked, random and visible, as in 80/10/10."""
        shares = self.mask_token, self.random_token
        return "/".join(f"{100 * share:.3g}" for share in (*shares, 1 - sum(shares)))


def canonical(value: Any) -> Any:
    """`value` as it comes back from JSON, with sorted keys: lists for tuples."""
    return json.loads(json.dumps(value, sort_keys=True))


def section(model: type[Section]) -> Any:
    """A field that holds the section `model`, all defaults unless something in it is set."""
    return Field(default_factory=model)


def is_section(bare: Any) -> bool:
    return isinstance(bare, type) and issubclass(bare, Section)


def taken_apart(hint: Any) -> tuple[Any, list, bool]:
    """The bare type of an annotation, its bounds, and whether null is allowed as well."""
    bounds, nullable = [], False
    while True:
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            for extra in extras:
                bounds += extra.metadata if isinstance(extra, FieldInfo) else [extra]
        elif get_origin(hint) in (Union, types.UnionType):
            nullable = True
            (hint,) = (a for a in get_args(hint) if a is not type(None))
        else:
            return hint, bounds, nullable


def expected(hint: Any) -> str:
    """What a value annotated with `hint` must be, in words."""
    bare, bounds, nullable = taken_apart(hint)
    names = (*_BOUNDS, "min_length", "max_length")
    limits = {n: v for b in bounds for n in names if (v := getattr(b, n, None)) is not None}
    origin = get_origin(bare) or bare
    if origin is Literal:
        words = f"one of: {', '.join(map(str, get_args(bare)))}"
    elif origin is list and limits.get("max_length"):
        words = f"list of {limits['max_length']}"
    elif origin is list and get_origin(item := get_args(bare)[0]) is Literal:
        words = f"list of {', '.join(get_args(item))}"
    elif origin is list:
        words = "list with at least one item" if limits else "list"
    elif origin is dict or is_section(bare):
        words = "section with at least one key" if limits else "section of keys and values"
    else:
        words = {int: "integer", float: "number", bool: "boolean", str: "string"}[bare]
        words += " that is not empty" * ("min_length" in limits)
        words += "".join(form.format(limits[n]) for n, form in _BOUNDS.items() if n in limits)
    return words + (", or null" if limits else " or null") * nullable


def did_you_mean(name: Any, known: Iterable[str], otherwise: str = "") -> str:
    """The one of `known` that `name` resembles, as a question."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def named_twice(key: str, names: Iterable[str] | None) -> Iterator[str]:
    """A line for each of `names` that occurs more than once in the list `key`."""
    for name, count in Counter(names or ()).items():
        if count > 1:
            yield f"{key}: {name!r} is named {count} times; once is enough"


def is_commit(revision: str | None) -> bool:
    """Whether `revision` is a commit's full hash: a branch or a tag can move."""
    return re.fullmatch(r"[0-9a-f]{40}", revision or "") is not None


def hub_id(place: str) -> tuple[str, str] | None:
    """The repository owner/name and the commit of `place`, if that is owner/name@COMMIT."""
    found = re.fullmatch(r"([\w.-]+/[\w.-]+)@([0-9a-f]{40})", place)
    return (found[1], found[2]) if found else None


def unexpanded(path: str) -> str:
    """The end of a message on the missing `path` if a shell would have expanded it."""
    if path.startswith("~") or "$" in path or "{" in path:
        return "; ~, $NAME and {a,b} are not expanded: write the paths out"
    return ""


def unpinned(key: str, revision: str | None) -> Iterator[str]:
    """A line if the `revision`, set by `key`, is not a commit."""
    if not is_commit(revision):
        found = f"{revision!r} is not a commit id" if revision else "missing"
        yield (
            f"{key}: {found}; expected the 40 hexadecimal digits of a commit, since a branch or a "
            "tag can move. They are on the repository's page on the Hub, under Files, History"
        )
