"""Section `model`: the architecture, and how its weights begin."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, create_model

from mlm.config.families import FAMILIES, first_position, unfit_family
from mlm.config.fields import (
    BelowOne,
    Count,
    Positive,
    Section,
    Text,
    hub_id,
    section,
    unexpanded,
)
from mlm.config.model_fields import in_numbers, unbuilt_fields, unknown_fields
from mlm.config.problems import checked

#: Fields of the transformers configuration that the workflow itself sets.
_SET_BY_THE_WORKFLOW = (
    *("model_type", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"),
    *("mask_token_id", "pad_token_id", "tie_word_embeddings"),
)
#: The weights of a published encoder, in one file or with an index of several.
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
#: Fields that would make another kind of model of it.
_DECODERS = ("is_decoder", "is_encoder_decoder", "add_cross_attention")


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


#: By the name in `mlm.model.architecture.Architecture` of what a field means, its bounds.
_BOUNDS = {
    **dict.fromkeys(("vocabulary", "width", "layers", "heads", "inner", "embedding"), Count),
    **dict.fromkeys(("positions", "token_types", "window", "global_every"), Count),
    **dict.fromkeys(("embedding_dropout", "attention_dropout", "attended_dropout"), BelowOne),
    **dict.fromkeys(("inner_dropout", "output_dropout", "norm_epsilon"), BelowOne),
    **dict.fromkeys(("norm_bias", "attention_bias", "inner_bias", "head_bias"), bool),
    **dict.fromkeys(("decoder_bias", "zero_masks"), bool),
    **dict.fromkeys(("global_theta", "local_theta"), Positive),
    "initializer_range": Annotated[float, Field(ge=0, le=10)],
}
#: Fields of all families by all their names, with their bounds.
_FIELDS = {
    name: _BOUNDS[meaning]
    for family in FAMILIES.values()
    for meaning, field in family.fields.items()
    if meaning in _BOUNDS
    for name in field.names
}
_KnownFields = create_model(
    "_KnownFields",
    __base__=ModelFields,
    **{name: (bounds | None, None) for name, bounds in _FIELDS.items()},
)


class Initialisation(Section):
    attention: Literal["neighbour_heads", "standard"] = "neighbour_heads"
    """neighbour_heads: heads that look at neighbouring tokens at first. standard: the family's."""
    embeddings: Literal["random", "cooccurrence"] = "cooccurrence"
    """cooccurrence: from counts of neighbouring tokens in the train split. random: the family's."""


class Model(Section):
    family: Literal[*FAMILIES] = "roberta-prelayernorm"
    """A model_type of transformers."""
    config_file: str | None = None
    """Take the architecture from this config.json, over which only fields of `config` go that
    differ from the defaults or that an overlay, the command line or a run sets."""
    config: ModelFields = section(ModelFields)
    """Fields of the transformers configuration, these and any that the family's network reads."""
    start_from: Text | None = None
    """Start from a published encoder: a directory in the Hugging Face layout, or owner/name@COMMIT
    on the Hub. It has its own architecture; of config, dropouts alone may be set beside it."""
    initialisation: Initialisation = section(Initialisation)

    def shown_fields(self) -> dict[str, Any]:
        """The fields of `config` that count, null ones too: beside a config file or a checkpoint
        only the user's own."""
        return self.config.model_dump(exclude_unset=bool(self.config_file or self.start_from))

    def of_jobs(self) -> "ModelOfRun":
        """The section as jobs get it, with the content of the config file."""
        initialisation, content = self.initialisation, None
        if self.start_from:
            initialisation = initialisation.model_copy(update={"attention": "standard"})
        # Whether a checkpoint of the Hub is here already changes no job.
        if self._file and not _is_on_hub(self.start_from):
            with suppress(ValueError):
                content = content_of(self._file)
        return ModelOfRun(
            family=self.family,
            config_file=content,
            config={k: v for k, v in self.shown_fields().items() if v is not None},
            start_from=self.start_from,
            initialisation=initialisation,
        )

    @property
    def _file(self) -> str | None:
        """The file with the architecture, here or once a checkpoint of the Hub is here."""
        if _is_on_hub(self.start_from):
            return f"{cached_snapshot(self.start_from)}/config.json"
        return f"{self.start_from}/config.json" if self.start_from else self.config_file

    @property
    def model_type(self) -> str:
        """The family: that of the config file, if there is one."""
        return self.of_jobs().model_type

    def _beside_checkpoint(self, fields: Iterable[str]) -> Iterator[str]:
        """A line for what is set beside `start_from` that it decides, or that it cannot have."""
        own = [
            n for n in ("family", "config_file") if n in self.model_fields_set and getattr(self, n)
        ]
        own += [f"config.{name}" for name in fields if "dropout" not in name]
        for name in own:
            yield (
                f"{name}: model.start_from has an architecture of its own. Leave {name} out, or "
                "set it in those runs alone that start from scratch"
            )

    def contradictions_at(self, sequence_length: int) -> Iterator[str]:
        """A line for whatever does not suit sequences of that length."""
        model = self.of_jobs()
        on_hub, fields, where = _is_on_hub(self.start_from), model.config, "family"
        for name in (name for name in _SET_BY_THE_WORKFLOW if name in fields):
            yield f"config.{name}: the workflow sets it, from tokenizer and family; leave it out"
        if self.start_from:
            yield from self._beside_checkpoint(fields)
        if on_hub:
            if hub_id(self.start_from) is None:
                yield (
                    f"start_from: {self.start_from!r} is no directory here, nor owner/name@COMMIT, "
                    "a checkpoint of the Hub with the 40 hexadecimal digits of a commit"
                    f"{unexpanded(self.start_from)}"
                )
            if not model.architecture():
                return
        elif self.start_from and os.path.isfile(self.start_from):
            yield f"start_from: {self.start_from} is a file; name its directory"
            return
        if file := self._file:
            where = f"{'start_from' if self.start_from else 'config_file'}: {file}"
            try:
                content = content_of(file)
            except ValueError as error:
                yield f"{where}: {error}; a config.json of transformers is expected"
                return
            if self.start_from and not on_hub:
                yield from (f"start_from: {line}" for line in unfit_files(self.start_from))
                inside = os.path.relpath(os.path.realpath(self.start_from))
                if inside.split(os.sep)[0] == "results":
                    yield (
                        f"start_from: {self.start_from} is a result of this directory, which a run "
                        "may replace. Copy it elsewhere, or use pretraining.continue_from"
                    )
            if self.start_from and content.get("tie_word_embeddings") is False:
                yield (
                    f"{where}: tie_word_embeddings is false, which it is in no model that is "
                    "trained here; choose another checkpoint"
                )
            family = content["model_type"]
            if self.config_file and "family" in self.model_fields_set and self.family != family:
                yield (
                    f"family: {self.family} is set, but the model_type of {self.config_file} is "
                    f"{family}; leave family out, or set it to {family}"
                )
        if reason := unfit_family(model.model_type):
            yield f"{where}: {reason}"
        elif wrong := [*model.field_problems()]:
            yield from wrong
        else:
            yield from model.unfit_sizes(sequence_length)


class ModelOfRun(Section):
    """The section as jobs get it: with the content of the config file, and of `config` the fields
    that are set."""

    family: Text
    config_file: dict[str, Any] | None = None
    config: dict[str, Any] = {}
    start_from: Text | None = None
    initialisation: Initialisation = section(Initialisation)

    def overrides(self) -> dict[str, Any]:
        """The fields of the transformers configuration that go before the architecture's."""
        return self.config

    def architecture(self) -> dict[str, Any]:
        """The content of the config file, or of a checkpoint's of the Hub that is here; empty
        without one."""
        if self.config_file is None and _is_on_hub(self.start_from):
            with suppress(ValueError):
                return content_of(f"{cached_snapshot(self.start_from)}/config.json")
        return self.config_file or {}

    @property
    def model_type(self) -> str:
        """The family: that of the config file, if there is one."""
        return self.architecture().get("model_type", self.family)

    def field_problems(self) -> Iterator[str]:
        """A line for each field, of `config` or the file, that the network does not have in this
        form. What a published checkpoint says beside its network is ignored."""
        stored, family = self.architecture(), self.model_type
        fields = (stored or FAMILIES[family].required_fields) | self.config
        for line in unknown_fields(self.config, family):
            yield f"config.{line} (null leaves out one that config.yaml sets)"
        if not self.start_from:
            for line in unknown_fields(stored, family):
                yield f"config_file: {line}. Take it out of the file"
        for line in unbuilt_fields(fields, family):
            yield f"config.{line}"
        yield from (f"config.{line}" for line in _field_problems(fields))

    def longest_sequence(self, sequence_length: int) -> int:
        """At most so many tokens fit into the model."""
        positions = (self.architecture() | self.config).get("max_position_embeddings")
        return positions if type(positions) is int else sequence_length

    def unfit_sizes(self, sequence_length: int) -> Iterator[str]:
        """A line for each size that does not suit the others, or sequences of that length."""
        family, fields = self.model_type, self.architecture() | self.config
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
            yield (
                f"config.max_position_embeddings: {positions}; sequences of {sequence_length} "
                f"tokens need at least {needed} in a {family}"
            )


def _is_on_hub(start_from: str | None) -> bool:
    return bool(start_from) and not os.path.exists(start_from)


def _field_problems(fields: dict[str, Any]) -> Iterator[str]:
    """Fields that no masked language model has in this form, from `config` and a config file."""
    wrong = checked(_KnownFields, fields)[1]
    yield from wrong
    for name in (n for n, bounds in _FIELDS.items() if bounds is Count):
        # Which YAML may say, but no config.json.
        as_text = isinstance(fields.get(name), str | float)
        if as_text and not any(line.startswith(f"{name}: ") for line in wrong):
            yield f"{name}: found {fields[name]!r}, expected an integer"
    for name in (name for name in _DECODERS if fields.get(name)):
        yield f"{name}: {fields[name]!r} makes a decoder of it, which has no masks; leave it out"


def unfit_neighbour_heads(family: str, sizes: Mapping[str, Any]) -> str | None:
    """Why `attention: neighbour_heads` is impossible with `sizes`, by `Architecture`'s names, as
    far as they are known, in words; None where it is possible."""
    width, heads = sizes["width"], sizes["heads"]
    embedding = sizes.get("embedding") or width
    if FAMILIES[family].shared_layers:
        others = (name for name, other in FAMILIES.items() if not other.shared_layers)
        need = f"a first layer of its own, as in {', '.join(others)}, found {family}"
    elif width and embedding != width:
        need = f"embeddings as wide as hidden_size {width}, found embedding_size {embedding}"
    elif heads == 1:
        need = "two heads or more, found 1"
    elif width and heads and width // heads < 4:
        need = f"heads at least 4 wide, found {width // heads}"
    elif sizes.get("zero_masks"):
        need = "masked tokens with embeddings, found token_dropout true"
    else:
        return None
    return f"neighbour_heads needs {need}. Set standard"


def unfit_files(place: str) -> Iterator[str]:
    """Why the files in directory `place` are no published encoder, beside its architecture."""
    directory = Path(place)
    if re.search(r"[{}]", place):
        yield f"{place}: Snakemake reads braces in paths as wildcards; rename it"
    if not (directory / "tokenizer.json").is_file():
        yield f"{place} has no tokenizer.json; AutoTokenizer's save_pretrained writes one"
    try:
        weight_files(directory)
    except ValueError as error:
        yield f"{place} {error}"
    with suppress(ValueError):
        if content_of(f"{place}/config.json").get("auto_map"):
            yield f"{place} brings its own code (auto_map in config.json), which is never run"


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


def content_of(path: str) -> dict[str, Any]:
    """The content of the config file at `path`; ValueError, in words, if it is none."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("is not a regular file")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"no such file{unexpanded(path)}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"is not readable as JSON ({error})") from None
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise ValueError("names no model_type")
    return in_numbers(content)
