"""A sentence for each value of the configuration that is wrong or unknown."""

import difflib
import re
from collections.abc import Iterable
from typing import Any, TypeVar, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import is_typeddict

from mlm.config.fields import Section, section_in


def did_you_mean(name: Any, known: Iterable[str], otherwise: str = "") -> str:
    """The one of `known` that `name` resembles, as a question."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


_Model = TypeVar("_Model", bound=Section)


def valid_part(error: ValidationError, model: type[_Model], values: dict) -> _Model:
    """Return the section `model` of `values` with defaults for those of `error`, so that one report
    has the contradictions among the others as well."""
    rest = values
    for detail in error.errors(include_url=False):
        rest = _without(rest, detail["loc"])
    if rest == values:
        wrong = {d["loc"][0] for d in error.errors()}
        rest = {k: v for k, v in values.items() if str(k) not in wrong}
    try:
        return model.model_validate(rest)
    except ValidationError as further:
        return valid_part(further, model, rest)


def _without(values: dict, way: tuple) -> dict:
    """Return `values` without the one at `way`; a list with a wrong item is left out whole."""
    key, *rest = way
    if rest and isinstance(values.get(key), dict) and rest != ["[key]"]:
        return values | {key: _without(values[key], tuple(rest))}
    return {k: v for k, v in values.items() if k != key}


def sentences(error: ValidationError, model: type[Section]) -> list[str]:
    """A line for each value that is wrong in the section `model`."""
    return [_sentence(detail, model) for detail in error.errors(include_url=False)]


def _sentence(detail: ErrorDetails, model: type[Section]) -> str:
    way, value, words = detail["loc"], detail["input"], detail["msg"]
    # Of a key that is wrong, its section.
    way = way[:-2] if way[-1] == "[key]" else way[:-1] if detail["type"] == "invalid_key" else way
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in way)[1:]
    match detail["type"]:
        case "extra_forbidden":
            known = _keys_at(model, way[:-1])
            hint = did_you_mean(way[-1], known, f"known keys: {', '.join(known)}")
            ways = [(k, way[-1]) for k in known if way[-1] in _keys_at(model, (*way[:-1], k))]
            dotted = str(way[-1]).split(".")
            if ways := ways or [dotted] * (len(dotted) > 1 and dotted[0] in known):
                nested = (f"{': {'.join(keys)}: …{'}' * (len(keys) - 1)}" for keys in ways)
                hint = f"did you mean {' or '.join(nested)}?"
            return f"{path}: unknown key; {hint}"
        case "missing":
            return f"{path}: missing; set it"
        case "value_error":
            return f"{path}: {words.removeprefix('Value error, ')}"
        case "model_type" | "dict_type":
            words = "input should be a section of keys and values"
        case "literal_error":
            known = re.findall("'(.*?)'", detail.get("ctx", {})["expected"])
            words = f"expected one of: {', '.join(known)}"
            words += f"; {meant}" if (meant := did_you_mean(value, known)) else ""
        case "string_type" if isinstance(value, bool):
            # Norwegian, for instance.
            words += "; YAML reads no, yes, on and off as booleans: write them as 'no', in quotes"
    shown = "null" if value is None else repr(value)
    return f"{path}: found {shown}; {words[0].lower()}{words[1:]}"


def _keys_at(model: type[Section], way: tuple[int | str, ...]) -> list[str]:
    """The keys of the section that is at `way` below `model`."""
    names = [part for part in way if isinstance(part, str)]
    while names:
        hint = model.model_fields[names[0]].annotation
        if is_typeddict(hint):
            return sorted(hint.__annotations__)
        model = section_in(hint) or model
        names = names[2 if get_origin(hint) is dict else 1 :]
    return sorted(model.model_fields)
