"""From what a user wrote to typed sections: text becomes numbers, errors become sentences."""

import contextlib
import copy
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mlm.config.fields import Section, did_you_mean, expected, is_section, taken_apart

#: The keys of section `pretraining` that say how long a training is.
LENGTHS = ("steps", "epochs", "tokens")
_Model = TypeVar("_Model", bound=Section)


def canonical(value: Any, hint: Any) -> Any:
    """`value` in the plain types that the annotation asks for, where that loses nothing: text in a
    nested `--config`, `1e-4` in YAML, and `1` where a number is expected."""
    bare, _, nullable = taken_apart(hint)
    if isinstance(value, dict):
        children = bare.hints() if is_section(bare) else {}
        other = get_args(bare)[1] if get_origin(bare) is dict else Any
        # YAML reads some keys as numbers, dates or null.
        return {str(k): canonical(v, children.get(str(k), other)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        item = get_args(bare)[0] if get_origin(bare) is list else Any
        return [canonical(v, item) for v in value]
    kinds = {bare} if bare is not Any else {int, float, bool}
    if isinstance(value, str):
        value = _from_text(value, kinds, nullable or bare is Any)
    if kinds == {float} and isinstance(value, int) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    if kinds == {int} and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _from_text(text: str, kinds: set, nullable: bool) -> Any:
    if text in ("null", "~") and nullable:
        return None
    if text.lower() in ("true", "false") and bool in kinds:
        return text.lower() == "true"
    for kind in (int, float):
        if kinds & {int, float}:
            with contextlib.suppress(ValueError):
                return kind(text)
    return text


def checked(model: type[_Model], given: dict) -> tuple[_Model, list[str]]:
    """`given` as the section `model`, and a line for each value that is wrong by itself. It takes
    its default, so that settings can still be compared and all problems are told at once."""
    given, problems = canonical(given, model), []
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


def with_its_length_alone(own: dict, under: dict) -> dict:
    """`own`, laid over `under`: a length in it makes another, of which it says nothing, null."""
    if all(own.get(key) is None for key in LENGTHS):
        return own
    return own | {k: None for k in LENGTHS if k not in own and under.get(k) is not None}


def merged(base: Any, override: Any) -> Any:
    """`base` under `override`, key by key; a list is replaced whole, a length by another."""
    if not (isinstance(base, dict) and isinstance(override, dict)):
        return copy.deepcopy(override)
    override = with_its_length_alone(override, base)
    return copy.deepcopy(base) | {k: merged(base.get(k), v) for k, v in override.items()}
