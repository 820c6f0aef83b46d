"""Settings as plain values: converted, laid over each other, compared."""

import contextlib
import copy
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from mlm.config.fields import is_section, taken_apart

#: The keys of section `pretraining` that say how long a training is.
LENGTHS = ("steps", "epochs", "tokens")


def as_plain(value: Any, hint: Any) -> Any:
    """`value` in the plain types that the annotation asks for, where that loses nothing: text in a
    nested `--config`, `1e-4` in YAML, and `1` where a number is expected."""
    bare, _, nullable = taken_apart(hint)
    if isinstance(value, dict):
        children = bare.hints() if is_section(bare) else {}
        other = get_args(bare)[1] if get_origin(bare) is dict else Any
        # YAML reads some keys as numbers, dates or null.
        return {str(k): as_plain(v, children.get(str(k), other)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        item = get_args(bare)[0] if get_origin(bare) is list else Any
        return [as_plain(v, item) for v in value]
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


def differing(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What of `values` is not as in `defaults`, nested alike."""
    found = {}
    for key, value in values.items():
        default = defaults.get(key)
        if isinstance(value, dict) and isinstance(default, dict):
            if inner := differing(value, default):
                found[key] = inner
        elif key not in defaults or value != default or type(value) is not type(default):
            found[key] = value
    return found
