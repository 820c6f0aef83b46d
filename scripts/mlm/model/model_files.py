"""Models in the Hugging Face layout: a published encoder is read, never run, and an export written.

Weights are read from safetensors alone, and get the names of AutoModelForMaskedLM in PyTorch.
"""

import copy
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mlm.config.config_json import content_of, in_numbers
from mlm.config.families import FAMILIES
from mlm.config.model import WEIGHTS, unfit_files
from mlm.foundations.atomic import read_json, write_json, write_weights
from mlm.foundations.digests import file_sha256, value_sha256
from mlm.foundations.errors import MlmError, listed, reading
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.tokenizer.pretrained import SOURCE_FILES, snapshot

if TYPE_CHECKING:  # the plan, which has no NumPy, asks for the files alone
    import numpy as np

_CONFIG, _CARD = "config.json", "README.md"
#: What is downloaded of a checkpoint; no folder of the Hub matches.
_ON_HUB = (_CONFIG, WEIGHTS, _CARD, *SOURCE_FILES)


@dataclass(frozen=True)
class Checkpoint:
    """What `place`, a directory or owner/name@COMMIT, holds: the `fields` of config.json, the
    `weights`, float32, the digest of both, the path of its tokenizer.json, and its card's licence.
    """

    place: str
    fields: dict[str, Any]
    weights: dict[str, "np.ndarray"]
    sha256: str
    tokenizer: Path
    licence: str | None

    @classmethod
    def read(cls, place: str, key: str = "model.start_from") -> Self:
        """That of `place`, which the setting `key` names. MlmError if there is none, or only one
        that would have to be unpickled or bring its own code."""
        directory = Path(place)
        if not directory.is_dir():
            name, _, commit = place.partition("@")
            directory = Path(snapshot(key, name, commit, _ON_HUB))
        if problems := [*unfit_files(directory)]:
            raise MlmError(f"{key}: {place} is no encoder to begin with:\n{listed(problems)}")
        fields = content_of(str(directory / _CONFIG))
        file = directory / WEIGHTS
        try:
            weights = read_tensors(file)
        except ValueError as error:
            raise MlmError(
                f"{file} is damaged: it cannot be read as safetensors of finite numbers "
                f"({error}). Download it again"
            ) from None
        parts = {file.name: file_sha256(file) for file in (directory / _CONFIG, file)}
        return cls(
            place=place,
            fields=fields,
            weights=_named_as_saved(weights, fields["model_type"]),
            sha256=value_sha256(parts),
            tokenizer=directory / "tokenizer.json",
            licence=_licence(directory / _CARD),
        )


def checkpoint_files(place: str | None) -> list[str]:
    """The files that count of the checkpoint in the directory `place`, sorted; none of a Hub id."""
    if not place or not Path(place).is_dir():
        return []
    files = {Path(place, name) for name in (_CONFIG, _CARD, WEIGHTS, *SOURCE_FILES)}
    return sorted(str(file) for file in files if file.is_file())


def read_tensors(file: Path) -> dict[str, "np.ndarray"]:
    """The floating-point arrays of a safetensors file, float32. ValueError if it is damaged."""
    import numpy as np
    from safetensors import SafetensorError, deserialize

    numbers, arrays = {"F64": np.float64, "F32": np.float32, "F16": np.float16}, {}
    try:
        tensors = deserialize(file.read_bytes())
    except SafetensorError as error:
        raise ValueError(" ".join(str(error).split())) from None
    for name, tensor in tensors:
        if tensor["dtype"] == "BF16":
            # The upper half of a float32.
            upper = np.frombuffer(tensor["data"], np.uint16).astype(np.uint32)
            value = (upper << 16).view(np.float32)
        elif tensor["dtype"] in numbers:
            value = np.frombuffer(tensor["data"], numbers[tensor["dtype"]])
        else:
            continue  # Buffers, such as position_ids, are no weights.
        with np.errstate(over="ignore"):
            arrays[name] = value.astype(np.float32).reshape(tensor["shape"])
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} has values that are not finite in float32")
    return arrays


def _named_as_saved(weights: dict[str, "np.ndarray"], family: str) -> dict[str, "np.ndarray"]:
    """`weights` by the names that AutoModelForMaskedLM saves: an encoder without a head gets its
    prefix, norms of old files their names of today, and what a decoder shares is left out."""
    prefix, heads = FAMILIES[family].encoder_prefix, FAMILIES[family].beside_encoder
    decoder = FAMILIES[family].names.decoder_bias.removesuffix("bias") + "weight"
    bare, renamed = not any(name.startswith(prefix) for name in weights), {}
    for name, value in weights.items():
        name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        name = prefix + name if bare and name.partition(".")[0] not in heads else name
        if not name.endswith((decoder, "decoder.weight")):
            renamed[name] = value
    # Older files hold one bias under both names.
    for name in [n for n in renamed if n.endswith(".decoder.bias")]:
        value = renamed.pop(name)
        renamed.setdefault(name.replace(".decoder.bias", ".bias"), value)
    return dict(sorted(renamed.items()))


def _licence(card: Path) -> str | None:
    from huggingface_hub import metadata_load

    try:
        licence = (metadata_load(card) or {}).get("license") if card.is_file() else None
    except Exception:  # a card is any text
        return None
    return licence if isinstance(licence, str) else None


def fitting(
    stored: Mapping[str, "np.ndarray"],
    architecture: Architecture,
    place: str | Path,
    without: Collection[str] = (),
) -> dict[str, "np.ndarray"]:
    """The architecture's weights among those that `place` has, float32 by name, but for those
    `without`. Raises MlmError if one is missing or has another shape, or for weights of layers that
    the network lacks: its config.json has fewer or other layers."""
    every = parameter_shapes(architecture)
    shapes = {name: shape for name, shape in every.items() if name not in without}
    remedy = "Give the model.safetensors and the config.json of one model"
    for name, shape in shapes.items():
        stored_shape = stored[name].shape if name in stored else "nothing"
        if stored_shape != shape:
            raise MlmError(f"{place}: {name}: found {stored_shape}, expected {shape}. {remedy}")
    prefix = re.escape(FAMILIES[architecture.family].encoder_prefix)
    in_layer = re.compile(prefix + r"(.*\.)?\d+\..*(weight|bias)$")
    if beyond := sorted(name for name in stored if name not in every and in_layer.match(name)):
        raise MlmError(
            f"{place}: {beyond[0]} and {len(beyond) - 1} more: found weights of layers that "
            f"config.json lacks. {remedy}"
        )
    return {name: stored[name].astype("float32") for name in shapes}


def read_exported(directory: str | Path) -> tuple[Architecture, dict[str, "np.ndarray"]]:
    """Architecture and weights, float32 by name, of a directory with config.json and
    model.safetensors. Raises MlmError as `fitting` and `Architecture.of`."""
    config, file = Path(directory) / "config.json", Path(directory) / "model.safetensors"
    with reading(config, "a model's configuration"):
        fields = read_json(config)
    architecture = Architecture.of(fields)
    with reading(file, "safetensors"):
        stored = read_tensors(file)
    return architecture, fitting(stored, architecture, file)


def write_exported(directory: str | Path, weights: Mapping[str, "np.ndarray"], config: Any) -> None:
    """Write model.safetensors, by PyTorch's names, and config.json, of transformers' class, with
    the architecture's name in PyTorch, as readers expect it."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    write_weights(weights, f"{directory}/model.safetensors")
    config = copy.deepcopy(config)
    config.architectures = [MODEL_FOR_MASKED_LM_MAPPING_NAMES[config.model_type]]
    config.dtype = "float32"
    fields = config.to_dict()
    fields.pop("_name_or_path", None)
    # For transformers 5, and in numbers for version 4.
    write_json(f"{directory}/config.json", fields | in_numbers(fields))
