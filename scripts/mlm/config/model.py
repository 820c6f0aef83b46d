"""Section `model`: the architecture, and how its weights begin."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, model_validator

from mlm.config.config_json import content_of, field_problems, unknown_fields
from mlm.config.families import FAMILIES, first_position, unfit_family
from mlm.config.fields import BelowOne, Count, FilePath, Section, hub_id, section, unexpanded

#: Fields of the transformers configuration that the workflow itself sets.
_SET_BY_THE_WORKFLOW = (
    *("model_type", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"),
    *("mask_token_id", "pad_token_id", "tie_word_embeddings"),
)
#: The weights of a published encoder.
WEIGHTS = "model.safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class ModelFields(Section):
    """Fields of the transformers configuration: these six, and any that the family has."""

    model_config = ConfigDict(extra="allow")

    hidden_size: Count | None = 128
    """Width of the layers; null, here as in every field: the family's default."""
    num_hidden_layers: Count | None = 2
    """Number of layers."""
    num_attention_heads: Count | None = 4
    """Number of attention heads of a layer."""
    intermediate_size: Count | None = 512
    """Width of the feed-forward network of a layer."""
    hidden_dropout_prob: BelowOne | None = 0.0
    """Dropout probability of embeddings and layers."""
    attention_probs_dropout_prob: BelowOne | None = 0.0
    """Dropout probability of the attention weights."""

    @model_validator(mode="before")
    @classmethod
    def _without_text(cls, values: Any) -> Any:
        """Return `values` with those of other fields as JSON reads them: `1e-5` is text in YAML."""
        if not isinstance(values, Mapping):
            return values
        read = dict(values)
        for name, value in values.items():
            if name not in cls.model_fields and isinstance(value, str):
                with suppress(ValueError):
                    read[name] = json.loads(value)
        return read


class Initialisation(Section):
    attention: Literal["neighbour_heads", "standard"] = "neighbour_heads"
    """neighbour_heads: heads that at first look at neighbouring tokens. standard: the family's."""
    embeddings: Literal["random", "cooccurrence"] = "cooccurrence"
    """cooccurrence: from counts of neighbouring tokens in the train split. random: the family's."""


class Model(Section):
    family: Literal[*FAMILIES] = "roberta-prelayernorm"  # pyright: ignore[reportInvalidTypeForm]
    """A model_type of transformers."""
    config: ModelFields = section(ModelFields)
    """Fields of the transformers configuration: these and others that the family's network
    reads."""
    start_from: FilePath | None = None
    """Start from a published encoder: a directory in the Hugging Face layout, or owner/name@COMMIT
    on the Hub. The architecture is the encoder's; of config, only dropouts may be set."""
    initialisation: Initialisation = section(Initialisation)

    def of_jobs(self) -> Self:
        """The section as jobs get it: beside `start_from`, only what is set."""
        if not self.start_from:
            return self
        unset = dict.fromkeys(ModelFields.model_fields)
        config = ModelFields.model_validate(unset | self.config.model_dump(exclude_unset=True))
        initialisation = self.initialisation.model_copy(update={"attention": "standard"})
        return self.model_copy(update={"config": config, "initialisation": initialisation})

    def architecture(self) -> dict[str, Any]:
        """The config.json of the checkpoint; empty without one, or if it is not here yet."""
        with suppress(ValueError):
            if self.start_from and (file := _config_json(self.start_from)):
                return content_of(file)
        return {}

    @property
    def model_type(self) -> str:
        """The family: that of the checkpoint, if there is one."""
        return self.architecture().get("model_type", self.family)

    @property
    def set_fields(self) -> dict[str, Any]:
        """The fields of `config` that are not left to the family or to the checkpoint."""
        return self.config.model_dump(exclude_none=True)

    def fields(self) -> dict[str, Any]:
        """The fields of the transformers configuration: the checkpoint's, under those set."""
        return {**self.architecture(), **self.set_fields}

    def field_problems(self) -> Iterator[str]:
        """A line for each field, of `config` or the checkpoint, that the network does not have in
        this form. Other fields of a checkpoint are ignored: transformers has dozens of them."""
        stored, family = self.architecture(), self.model_type
        fields = {k: v for k, v in self.set_fields.items() if k not in _SET_BY_THE_WORKFLOW}
        for line in unknown_fields(fields, family):
            yield f"config.{line} (null leaves out one that config.yaml sets)"
        required = {} if stored else FAMILIES[family].required
        for line in field_problems({**required, **self.fields()}, family):
            yield f"config.{line}"

    def contradictions_at(self, sequence_length: int) -> Iterator[str]:
        """A line for each setting that does not suit the others, or sequences of that length."""
        model = self.of_jobs()
        for name in (name for name in _SET_BY_THE_WORKFLOW if name in model.set_fields):
            yield f"config.{name}: the workflow sets it, from tokenizer and family; leave it out"
        if self.start_from:
            beside = [f"config.{name}" for name in model.set_fields if "dropout" not in name]
            for name in [*({"family"} & self.model_fields_set), *beside]:
                yield f"{name}: model.start_from decides it. Set it in runs from scratch alone"
            yield from (f"start_from: {line}" for line in unfit_encoder(self.start_from))
        is_known = model.architecture() or not self.start_from
        if is_known and model.model_type in FAMILIES:
            yield from [*model.field_problems()] or model._unfit_sizes(sequence_length)

    def _unfit_sizes(self, sequence_length: int) -> Iterator[str]:
        family, fields = self.model_type, self.fields()
        sizes = FAMILIES[family].read(fields)
        problem = unfit_neighbour_heads(family, sizes)
        if problem and self.initialisation.attention == "neighbour_heads":
            yield f"initialisation.attention: {problem}"
        width, heads = sizes["width"], sizes["heads"]
        if width and heads and width % heads:
            yield f"config: {heads} attention heads do not divide hidden_size {width}"
        needed = first_position(family) + sequence_length
        if (positions := fields.get("max_position_embeddings") or needed) < needed:
            key = "config.max_position_embeddings"
            yield f"{key}: {positions}; {sequence_length} tokens need at least {needed}"


def _is_on_hub(place: str) -> bool:
    return not os.path.exists(place)


def unfit_neighbour_heads(family: str, sizes: Mapping[str, Any]) -> str | None:
    """Why `attention: neighbour_heads` is impossible with `sizes`, by `Architecture`'s names, as
    far as they are known, in words; None where it is possible."""
    width, heads = sizes["width"], sizes["heads"]
    embedding = sizes.get("embedding") or width
    head_width = width // heads if width and heads else 4
    reasons = {
        f"{family} has no first layer of its own": FAMILIES[family].shared_layers,
        f"{family} has rotary positions": sizes.get("global_theta"),
        f"embedding_size {embedding} is not hidden_size {width}": width and embedding != width,
        "one head is not enough": heads == 1,
        f"heads are {head_width} wide, less than 4": head_width < 4,
    }
    reason = next((reason for reason, holds in reasons.items() if holds), None)
    return reason and f"neighbour_heads cannot be: {reason}. Set standard"


def unfit_encoder(place: str) -> Iterator[str]:
    """Why `place` is no published encoder, as far as it is known here: of the Hub, its name."""
    if not _is_on_hub(place):
        if Path("results").resolve() in Path(place).resolve().parents:
            yield (
                f"{place} is a result of this directory, which a run may replace. Copy it "
                "elsewhere, or use pretraining.continue_from"
            )
        if not Path(place, "tokenizer.json").is_file():
            yield f"{place} has no tokenizer.json; AutoTokenizer's save_pretrained writes one"
        yield from (f"{place}: {line}" for line in unfit_files(Path(place)))
    elif hub_id(place) is None:
        yield (
            f"{place!r} is no directory here, nor owner/name@COMMIT, a checkpoint of the Hub "
            f"with the 40 hexadecimal digits of a commit{unexpanded(place)}"
        )


def unfit_files(directory: Path) -> Iterator[str]:
    """Why the `directory` holds no weights of an encoder that is trained here."""
    try:
        fields = content_of(f"{directory}/config.json")
        if reason := unfit_family(fields["model_type"]):
            yield f"config.json: model_type: {reason}"
        if fields.get("auto_map"):
            yield "config.json names code of its own (auto_map), which is never run"
    except ValueError as error:
        yield f"config.json: {error}; the configuration of one model is expected"
    if not (directory / WEIGHTS).is_file():
        pickles = sorted(file.name for file in directory.glob("*") if file.suffix in _PICKLES)
        yield (
            f"has no {WEIGHTS}{f', but {pickles[0]}' if pickles else ''}. A pickle "
            "(pytorch_model.bin) can run any code and is never opened; choose a commit with "
            "safetensors, or convert it elsewhere: "
            "AutoModelForMaskedLM.from_pretrained(…).save_pretrained(…)"
        )


def _config_json(place: str) -> str | None:
    """The config.json of the encoder `place`; None of one on the Hub that is not here yet."""
    if not _is_on_hub(place):
        return f"{place}/config.json"
    with suppress(ImportError, ValueError):  # an environment for plans alone; no name of the Hub
        from huggingface_hub import try_to_load_from_cache

        name, _, commit = place.partition("@")
        file = try_to_load_from_cache(name, "config.json", revision=commit)
        return file if isinstance(file, str) else None
    return None
