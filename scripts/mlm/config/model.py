"""Section `model`: the architecture, and how its weights begin."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, model_validator

from mlm.config.families import FAMILIES, first_position, unfit_family
from mlm.config.fields import BelowOne, Count, FilePath, Section, Text, hub_id, section, unexpanded
from mlm.config.model_fields import content_of, field_problems, unknown_fields

#: Fields of the transformers configuration that the workflow itself sets.
_SET_BY_THE_WORKFLOW = (
    *("model_type", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"),
    *("mask_token_id", "pad_token_id", "tie_word_embeddings"),
)
#: The weights of a published encoder, in one file or with an index of several.
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class ModelFields(Section):
    """Fields of the transformers configuration: these six, and any that the family has."""

    model_config = ConfigDict(extra="allow")

    hidden_size: Count | None = 128
    """Width of the layers; null, here as in every field, leaves it to the family."""
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
    """neighbour_heads: heads that look at neighbouring tokens at first. standard: the family's."""
    embeddings: Literal["random", "cooccurrence"] = "cooccurrence"
    """cooccurrence: from counts of neighbouring tokens in the train split. random: the family's."""


class Model(Section):
    family: Literal[*FAMILIES] = "roberta-prelayernorm"  # pyright: ignore[reportInvalidTypeForm]
    """A model_type of transformers."""
    config_file: FilePath | None = None
    """Take the architecture from this config.json, over which only fields of `config` go that
    differ from the defaults or that an overlay, the command line or a run sets."""
    config: ModelFields = section(ModelFields)
    """Fields of the transformers configuration, these and any that the family's network reads."""
    start_from: FilePath | None = None
    """Start from a published encoder: a directory in the Hugging Face layout, or owner/name@COMMIT
    on the Hub. It has its own architecture; of config, dropouts alone may be set beside it."""
    initialisation: Initialisation = section(Initialisation)

    def shown_fields(self) -> dict[str, Any]:
        """The fields of `config` that count, null ones too."""
        return self.config.model_dump(exclude_unset=bool(self.config_file or self.start_from))

    def of_jobs(self) -> "ModelOfRun":
        """The section as jobs get it, with the content of the config file."""
        initialisation, content = self.initialisation, None
        if self.start_from:
            initialisation = initialisation.model_copy(update={"attention": "standard"})
        # Whether a checkpoint of the Hub is here already changes no job.
        file = f"{self.start_from}/config.json" if self.start_from else self.config_file
        if file and not (self.start_from and _is_on_hub(self.start_from)):
            with suppress(ValueError):
                content = content_of(file)
        return ModelOfRun(
            family=self.family,
            config_file=content,
            config={k: v for k, v in self.shown_fields().items() if v is not None},
            start_from=self.start_from,
            initialisation=initialisation,
        )

    def _beside_checkpoint(self, fields: Iterable[str]) -> Iterator[str]:
        """A line for each setting beside `start_from` that it decides, or that it cannot have."""
        names = [n for n in ("family", "config_file") if n in self.model_fields_set]
        names = [name for name in names if getattr(self, name)]
        for name in [*names, *(f"config.{name}" for name in fields if "dropout" not in name)]:
            yield f"{name}: model.start_from decides it. Set it in runs from scratch alone"

    def contradictions_at(self, sequence_length: int) -> Iterator[str]:
        """A line for each setting that does not suit the others, or sequences of that length."""
        model = self.of_jobs()
        stored = model.architecture()
        for name in (name for name in _SET_BY_THE_WORKFLOW if name in model.config):
            yield f"config.{name}: the workflow sets it, from tokenizer and family; leave it out"
        if self.start_from:
            yield from self._beside_checkpoint(model.config)
            yield from (f"start_from: {line}" for line in unfit_encoder(self.start_from))
            if stored.get("tie_word_embeddings") is False:
                where = f"start_from: {self.start_from}"
                yield f"{where}: tie_word_embeddings is false, true is expected; choose another"
        elif self.config_file:
            yield from (f"config_file: {line}" for line in _unfit_architecture(self.config_file))
            family = stored.get("model_type", self.family)
            if "family" in self.model_fields_set and self.family != family:
                where = f"model_type of {self.config_file}"
                yield f"family: {self.family}, but {where} is {family}. Leave family out"
        is_known = stored or not (self.start_from or self.config_file)
        if is_known and model.model_type in FAMILIES:
            yield from [*model.field_problems()] or model.unfit_sizes(sequence_length)


class ModelOfRun(Section):
    """The section as jobs get it: with the config file's content, and `config` as set."""

    family: Text
    config_file: dict[str, Any] | None = None
    config: dict[str, Any] = {}
    start_from: Text | None = None
    initialisation: Initialisation = section(Initialisation)

    def architecture(self) -> dict[str, Any]:
        """The content of the config file, or of a cached checkpoint's; empty without one."""
        if self.config_file is None and self.start_from and _is_on_hub(self.start_from):
            with suppress(ValueError):
                return content_of(f"{cached_snapshot(self.start_from)}/config.json")
        return self.config_file or {}

    @property
    def model_type(self) -> str:
        """The family: that of the config file, if there is one."""
        return self.architecture().get("model_type", self.family)

    def fields(self) -> dict[str, Any]:
        """The fields of the transformers configuration: the file's, under those that are set."""
        return {**self.architecture(), **self.config}

    def field_problems(self) -> Iterator[str]:
        """A line for each field, of `config` or the file, that the network does not have in this
        form. Other fields of a file are ignored: files of transformers have dozens of them."""
        stored, family = self.architecture(), self.model_type
        for line in unknown_fields(self.config, family):
            yield f"config.{line} (null leaves out one that config.yaml sets)"
        required = {} if stored else FAMILIES[family].required_fields
        for line in field_problems({**required, **self.fields()}, family):
            yield f"config.{line}"

    def unfit_sizes(self, sequence_length: int) -> Iterator[str]:
        """A line for each size that does not suit the others, or sequences of that length."""
        family, fields = self.model_type, self.fields()
        sizes = FAMILIES[family].read(fields)
        problem = unfit_neighbour_heads(family, sizes)
        standard = self.start_from or self.initialisation.attention == "standard"
        if problem and not standard:
            yield f"initialisation.attention: {problem}"
        width, heads = sizes["width"], sizes["heads"]
        if width and heads and width % heads:
            yield f"config: {heads} attention heads do not divide hidden_size {width}"
        positions, needed = fields.get("max_position_embeddings"), first_position(family)
        needed += sequence_length
        if (positions or needed) < needed:
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
        f"embedding_size {embedding} is not hidden_size {width}": width and embedding != width,
        "one head is not enough": heads == 1,
        f"heads are {head_width} wide, less than 4": head_width < 4,
        "token_dropout is true, so that masked tokens have no embeddings": sizes.get("zero_masks"),
    }
    reason = next((reason for reason, holds in reasons.items() if holds), None)
    return reason and f"neighbour_heads cannot be: {reason}. Set standard"


def unfit_encoder(place: str) -> Iterator[str]:
    """Why `place` is no published encoder, as far as it is known here: of the Hub, its name."""
    if _is_on_hub(place):
        if hub_id(place) is None:
            yield (
                f"{place!r} is no directory here, nor owner/name@COMMIT, a checkpoint of the Hub "
                f"with the 40 hexadecimal digits of a commit{unexpanded(place)}"
            )
        return
    directory, file = Path(place), f"{place}/config.json"
    yield from _unfit_architecture(file)
    if Path("results").resolve() in directory.resolve().parents:
        yield (
            f"{place} is a result of this directory, which a run may replace. Copy it elsewhere, "
            "or use pretraining.continue_from"
        )
    if not (directory / "tokenizer.json").is_file():
        yield f"{place} has no tokenizer.json; AutoTokenizer's save_pretrained writes one"
    with suppress(ValueError):
        if content_of(file).get("auto_map"):
            yield f"{place} brings its own code (auto_map in config.json), which is never run"
    try:
        weight_files(directory)
    except ValueError as error:
        yield f"{place} {error}"


def _unfit_architecture(file: str) -> Iterator[str]:
    """Why the config.json `file` is none of a model that is trained here."""
    try:
        reason = unfit_family(content_of(file)["model_type"])
    except ValueError as error:
        reason = f"{error}; a config.json of transformers is expected"
    if reason:
        yield f"{file}: {reason}"


def weight_files(directory: Path) -> list[str]:
    """The names of the safetensors files of the encoder in `directory`, sorted: the one, or the
    index and the parts that it names. ValueError, in words, if they are not all there."""
    if (directory / WEIGHTS).is_file():
        return [WEIGHTS]
    if not (directory / INDEX).is_file():
        pickles = sorted(file.name for file in directory.glob("*") if file.suffix in _PICKLES)
        raise ValueError(
            f"has no {WEIGHTS}{f', but {pickles[0]}' if pickles else ''}. A pickle "
            "(pytorch_model.bin) can run any code and is never opened; choose a commit with "
            "safetensors, or convert it elsewhere: "
            "AutoModelForMaskedLM.from_pretrained(…).save_pretrained(…)"
        )
    try:
        index = json.loads((directory / INDEX).read_text(encoding="utf-8"))
        names = sorted({Path(name).name for name in index["weight_map"].values()})
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"has a damaged {INDEX} ({error!r})") from None
    if missing := [name for name in names if not (directory / name).is_file()]:
        raise ValueError(f"lacks {', '.join(missing)}, which {INDEX} names")
    return [INDEX, *names]


def cached_snapshot(checkpoint: str) -> Path:
    """Where huggingface_hub, which the plan does without, keeps `checkpoint`, owner/name@COMMIT."""
    home = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "huggingface"
    hub = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME", home)) / "hub"
    name, _, commit = checkpoint.partition("@")
    return Path(hub) / f"models--{name.replace('/', '--')}" / "snapshots" / commit
