"""The fields of a config.json: which a network computes with, and which it may not have."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, create_model

from mlm.config.error_messages import did_you_mean, sentences
from mlm.config.families import FAMILIES
from mlm.config.fields import BelowOne, Count, NoBoolean, Positive, Section, unexpanded

#: Fields that would make another network than the one that is trained here, unless they have
#: this value.
_ONLY = {
    "position_embedding_type": "absolute",
    "rope_scaling": None,
    "pruned_heads": {},
    "tf_legacy_loss": False,
    # Decoders have no masks.
    **dict.fromkeys(("is_decoder", "is_encoder_decoder", "add_cross_attention"), False),
}
#: Fields of transformers 5 for what a ModernBERT's other fields say in a number each.
_OF_VERSION_5 = ("layer_types", "rope_parameters")
#: By kind of layer: what transformers 5 calls it, and the field with the base of its positions.
_THETAS = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}
#: Those of `mlm.model.network`.
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")

#: By the name in `mlm.model.architecture.Architecture` of what a field means, its bounds.
_BOUNDS = {
    **dict.fromkeys(("vocabulary", "width", "layers", "heads", "inner", "embedding"), Count),
    **dict.fromkeys(("positions", "token_types", "window", "global_every"), Count),
    **dict.fromkeys(("embedding_dropout", "attention_dropout", "attended_dropout"), BelowOne),
    **dict.fromkeys(("inner_dropout", "output_dropout", "norm_epsilon"), BelowOne),
    **dict.fromkeys(("norm_bias", "attention_bias", "inner_bias", "head_bias"), bool),
    **dict.fromkeys(("decoder_bias", "zero_masks"), bool),
    **dict.fromkeys(("global_theta", "local_theta"), Positive),
    **dict.fromkeys(("activation", "head_activation"), Literal[*ACTIVATIONS]),
    "initializer_range": Annotated[float, Field(ge=0, le=10), NoBoolean],
}
#: Fields of all families by all their names, with their bounds.
_FIELDS: dict[str, Any] = {
    name: (_BOUNDS[meaning] | None, None)
    for family in FAMILIES.values()
    for meaning, field in family.fields.items()
    if meaning in _BOUNDS
    for name in field.names
}


class _StrictFields(Section):
    model_config = ConfigDict(extra="ignore", strict=True)


def content_of(path: str) -> dict[str, Any]:
    """The content of the config file at `path`; ValueError, in words, if it is none."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"no such file{unexpanded(path)}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"is not readable as JSON ({error})") from None
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise ValueError("names no model_type")
    return in_numbers(content)


def in_numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`fields` of a config.json with `_OF_VERSION_5` as numbers: a ModernBERT's bases of rotary
    positions, and how many layers lie between two global ones. Raises ValueError for others."""
    if fields.get("model_type") != "modernbert":
        return dict(fields)
    numbers = {name: value for name, value in fields.items() if name not in _OF_VERSION_5}
    if rope := fields.get("rope_parameters"):
        try:
            numbers |= {name: float(rope[kind]["rope_theta"]) for kind, name in _THETAS.items()}
            is_plain = {rope[kind]["rope_type"] for kind in _THETAS} == {"default"}
        except (KeyError, TypeError, ValueError):
            is_plain = False
        if not is_plain:
            raise ValueError(
                f"rope_parameters: found {rope}, expected a rope_theta of rope_type: default for "
                f"each of {', '.join(_THETAS)}"
            )
    if (types := fields.get("layer_types")) is not None:
        stored = numbers.get("global_attn_every_n_layers")
        numbers["global_attn_every_n_layers"] = _layers_between(types, stored)
    return numbers


def _layers_between(types: Any, stored: int | None) -> int:
    """The n for which each n-th layer of a ModernBERT is global. Raises ValueError for none."""
    layers = range(len(types) if isinstance(types, list) else 0)
    for every in filter(None, (stored, *(n + 1 for n in layers))):
        if types == ["sliding_attention" if n % every else "full_attention" for n in layers]:
            return every
    raise ValueError(
        f"layer_types: found {types}, expected full_attention in each n-th layer from the first "
        "on, and sliding_attention in the others"
    )


def unknown_fields(fields: Mapping[str, Any], family: str) -> Iterator[str]:
    """A line for each field that the network of `family` does not read, nor may have by it."""
    read = FAMILIES[family].field_names
    known = {*read, *_values(family), *_OF_VERSION_5}
    for name in sorted(name for name, value in fields.items() if value is not None):
        if name not in known:
            hint = did_you_mean(name, sorted(read), "see its configuration class")
            yield f"{name}: {family} has no such field; {hint}"


def _values(family: str) -> dict[str, Any]:
    """The only value of each field that has one in `family`."""
    return {**_ONLY, **FAMILIES[family].only, **FAMILIES[family].required}


def field_problems(fields: Mapping[str, Any], family: str) -> Iterator[str]:
    """A line for each of `fields`, all of a config.json, with a value that no network here has."""
    required = FAMILIES[family].required
    for name, only in _values(family).items():
        value = fields.get(name)
        if value != only and (value is not None or name in required):
            remedy = "set it" if name in required else "leave it out"
            yield (
                f"{name}: found {'nothing' if value is None else repr(value)}, expected {only!r}, "
                f"the only network that is trained here; {remedy}"
            )
    for name in _OF_VERSION_5:
        if fields.get(name) is not None:
            yield (
                f"{name}: say it in numbers, global_attn_every_n_layers, global_rope_theta and "
                "local_rope_theta, and leave it out"
            )
    bounds = {name: bound for name, bound in _FIELDS.items() if name in fields}
    model = create_model("Fields", __base__=_StrictFields, **bounds)
    try:
        model.model_validate(dict(fields))
    except ValidationError as error:
        yield from sentences(error, model)
