"""Section `model`: the architecture, and how its weights begin."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from mlm.config.families import (
    NO_TOKEN_TYPES,
    too_few_positions,
    unfit_family,
    unfit_for_neighbour_heads,
)
from mlm.config.fields import (
    BelowOne,
    Count,
    NotNegativeCount,
    ProperFraction,
    Section,
    Text,
    expected,
    section,
)
from mlm.config.problems import checked

#: Fields of the transformers configuration that the workflow itself sets.
SET_BY_THE_WORKFLOW = (
    *("model_type", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"),
    *("pad_token_id", "tie_word_embeddings"),
)
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


class Initialisation(Section):
    attention: Literal["neighbour_heads", "standard"] = "neighbour_heads"
    """neighbour_heads: attention heads that look at the neighbouring tokens from the first step on.
    standard: the family's own."""
    embeddings: Literal["random", "cooccurrence"] = "cooccurrence"
    """cooccurrence: word embeddings and output bias from counts of neighbouring tokens in the train
    split. random: the family's own, or those that go with neighbour_heads."""


class Model(Section):
    family: Text = "roberta-prelayernorm"
    """A model_type of transformers, one that pretraining.engine has."""
    config_file: str | None = None
    """Take the architecture from this config.json, over which only fields of `config` go that
    differ from the defaults or that an overlay, the command line or a run sets."""
    config: ModelFields = section(ModelFields)
    """Fields of the transformers configuration, these and any that the family has."""
    initialisation: Initialisation = section(Initialisation)

    def overrides(self) -> dict[str, Any]:
        """The fields of `config` that count: only the user's own beside a config file.

        The defaults describe the embedded model, and would otherwise replace the sizes of the file
        unasked. null leaves a field to the family or the file.
        """
        return {key: value for key, value in self.shown_fields().items() if value is not None}

    def shown_fields(self) -> dict[str, Any]:
        """The fields of `config` for a reader of the whole configuration, null ones included."""
        return self.config.model_dump(exclude_unset=bool(self.config_file))

    def of_jobs(self) -> dict[str, Any]:
        """The section as jobs get it, in plain types.

        The content of the config file replaces its name, so that its edit trains again and
        its state is not taken for another's.
        """
        content = self.architecture() or None
        return self.model_dump() | {"config": self.overrides(), "config_file": content}

    def architecture(self) -> dict[str, Any]:
        """The content of the config file; empty without one."""
        return _read(self.config_file)[0] if self.config_file else {}

    @property
    def model_type(self) -> str:
        """The family: that of the config file, if there is one."""
        return self.architecture().get("model_type", self.family)

    def longest_sequence(self, sequence_length: int) -> int:
        """At most so many tokens fit into the model."""
        positions = (self.architecture() | self.overrides()).get("max_position_embeddings")
        return positions if type(positions) is int else sequence_length

    def contradictions_at(self, sequence_length: int, engine: str) -> list[str]:
        """What is wrong with the section for sequences of that length and `pretraining.engine`, one
        line each."""
        fields, family, where = self.overrides(), self.family, "model.family: "
        problems = [
            f"model.config.{name}: the workflow sets it itself, from tokenizer and family; leave it"
            " out"
            for name in SET_BY_THE_WORKFLOW
            if name in fields
        ]
        if self.config_file:
            content, problem = _read(self.config_file)
            if problem:
                return [*problems, problem]
            family, where = content["model_type"], f"model.config_file: {self.config_file}: "
            fields = content | fields
            if "family" in self.model_fields_set and self.family != family:
                problems.append(
                    f"model.family: {self.family} is set, but the model_type of "
                    f"{self.config_file} is {family}; leave family out, or set it to {family}"
                )
        if reason := unfit_family(family, engine):
            return [*problems, where + reason]
        if wrong := _field_problems(fields, family):
            return problems + wrong
        if self.initialisation.attention == "neighbour_heads":
            problem = unfit_for_neighbour_heads(family, fields)
            problems += [problem] if problem else []
        width, heads = fields.get("hidden_size"), fields.get("num_attention_heads")
        if width and heads and width % heads:
            problems.append(
                f"model.config: {heads} attention heads do not divide hidden_size {width}"
            )
        positions = fields.get("max_position_embeddings")
        if positions and (problem := too_few_positions(family, positions, sequence_length)):
            problems.append(problem)
        return problems


class ModelOfRun(Model):
    """The section as jobs get it, from `Model.of_jobs`."""

    config_file: dict[str, Any] | None = None

    def architecture(self) -> dict[str, Any]:
        return self.config_file or {}


class _KnownFields(ModelFields):
    """Fields of many families beside those of `config`, with their bounds."""

    embedding_size: Count | None = None
    vocab_size: Count | None = None
    max_position_embeddings: Count | None = None
    type_vocab_size: NotNegativeCount | None = None
    initializer_range: Annotated[float, Field(ge=0, le=10)] | None = None
    layer_norm_eps: ProperFraction | None = None
    norm_eps: ProperFraction | None = None


def _field_problems(fields: dict[str, Any], family: str) -> list[str]:
    """Fields that no masked language model has in this form, from `config` and a config file."""
    problems = [f"model.config.{line}" for line in checked(_KnownFields, fields)[1]]
    if fields.get("type_vocab_size") == 0 and family not in NO_TOKEN_TYPES:
        problems.append(f"model.config.type_vocab_size: found 0, expected {expected(Count)}")
    for name, value in fields.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            if name not in _KnownFields.model_fields:
                problems.append(f"model.config.{name}: found {value!r}, expected finite numbers")
    return problems + [
        f"model.config.{name}: {fields[name]!r} makes another kind of model of it; a "
        "masked language model is an encoder. Leave it out"
        for name in _DECODERS
        if fields.get(name)
    ]


def _read(path: str) -> tuple[dict, str | None]:
    """The config file's content, and what is wrong with it, in words."""
    problem, content = None, {}
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            problem = "is not a regular file"
        else:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
                problem = "names no model_type"
    except FileNotFoundError:
        problem = "no such file"
    except RecursionError:
        problem = "nested too deeply"
    except (OSError, ValueError) as error:
        problem = f"is not readable as JSON ({error})"
    if problem:
        return (
            {},
            f"model.config_file: {path}: {problem}; a config.json of transformers is expected",
        )
    return content, None
