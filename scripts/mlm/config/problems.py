"""From what a user wrote to typed sections, with a sentence for each value that is wrong."""

from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mlm.config.fields import Section, did_you_mean, expected, is_section, taken_apart
from mlm.config.merging import as_plain

_Model = TypeVar("_Model", bound=Section)


def checked(model: type[_Model], given: dict) -> tuple[_Model, list[str]]:
    """`given` as the section `model`, and a line for each value that is wrong by itself. It takes
    its default, so that settings can still be compared and all problems are reported at once."""
    given, problems = as_plain(given, model), []
    while True:
        try:
            return model.model_validate(given), problems
        except ValidationError as error:
            details = error.errors(include_url=False)
            problems += [_sentence(detail, model) for detail in details]
            for detail in details:
                given = _without(given, detail["loc"])


def _sentence(detail: ErrorDetails, model: type[Section]) -> str:
    *way, last = detail["loc"]
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in detail["loc"])[1:]
    if detail["type"] == "extra_forbidden":
        known = sorted(_hint(model, way)[0].model_fields)
        hint = did_you_mean(last, known, f"known keys: {', '.join(known)}")
        return f"{path}: unknown key; {hint}"
    value = detail["input"]
    found = "null" if value is None else repr(value)
    hint, wanted = _hint(model, detail["loc"])
    words = expected(wanted)
    if get_origin(hint) is Literal and (meant := did_you_mean(value, map(str, get_args(hint)))):
        words += f"; {meant}"
    if isinstance(value, bool) and taken_apart(wanted)[0] is str:
        # Norwegian, for instance.
        words += "; YAML reads no, yes, on and off as booleans: write them as 'no', in quotes"
    return f"{path}: found {found}, expected {words}"


def _hint(model: type[Section], way) -> tuple[Any, Any]:
    """What is at `way` below `model`: the bare type, and the annotation with its bounds."""
    bare, hint = model, model
    for part in way:
        hint = bare.hints()[part] if is_section(bare) else get_args(bare)[-1]
        bare = taken_apart(hint)[0]
    return bare, hint


def _without(given: dict, way: tuple) -> dict:
    """`given` without the value at `way`; without the whole list where that is an item of one."""
    key, *rest = way
    if not rest or isinstance(rest[0], int):
        return {k: v for k, v in given.items() if k != key}
    return given | {key: _without(given.get(key, {}), rest)}
