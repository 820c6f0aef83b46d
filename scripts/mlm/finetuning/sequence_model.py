"""An encoder with a head for a task: one output of each text, or one for each class.

The heads and their names are those of transformers' sequence models, so that these open what is
written. All read the last state of the first token. Unlike there, one dropout probability applies
throughout, and the last layer computes the first token alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from mlm.foundations.atomic import write_json, write_weights
from mlm.foundations.errors import ConfigError, MlmError
from mlm.model.architecture import FAMILIES, Architecture
from mlm.model.checkpoints import Checkpoint
from mlm.model.network import Parameters, dense_product, dropped, hidden_states, projection
from mlm.model.weights import fitting, initial_parameters


@dataclass(frozen=True)
class _Head:
    """A family's class in PyTorch, and the names of the head's products."""

    architecture: str
    output: str
    #: None: the head of the masked language model comes before the output.
    dense: str | None = None
    drops_first: bool = False


_HEADS = {
    "bert": _Head("BertForSequenceClassification", "classifier", "bert.pooler.dense"),
    "modernbert": _Head("ModernBertForSequenceClassification", "classifier"),
} | {
    family: _Head(name, "classifier.out_proj", "classifier.dense", drops_first=True)
    for family, name in (
        ("roberta", "RobertaForSequenceClassification"),
        ("xlm-roberta", "XLMRobertaForSequenceClassification"),
        ("roberta-prelayernorm", "RobertaPreLayerNormForSequenceClassification"),
    )
}


@dataclass(frozen=True)
class SequenceModel:
    """The network; `fields` are those of the config.json that goes with its weights.

    Products are computed in `dtype`, everything else in float32.
    """

    architecture: Architecture
    fields: Mapping[str, Any]
    dropout: float
    dtype: Any = jnp.float32

    @property
    def _head(self) -> _Head:
        return _HEADS[self.architecture.family]

    def length(self, most: int) -> int:
        """Tokens of a text that are read: `most`, or what the table of positions has room for."""
        longest = self.architecture.longest_row
        return most if longest is None else min(most, longest)

    def logits(self, parameters: Parameters, input_ids, attention_mask, dropout_key=None):
        """Outputs float32 [batch, outputs] of `input_ids` and `attention_mask`, int32 [batch,
        length]. Without `dropout_key` nothing is dropped."""
        head, keys = self._head, [None] * 3
        if dropout_key is not None:
            keys = jax.random.split(dropout_key, 3)
        state = hidden_states(
            parameters,
            self.architecture,
            input_ids,
            attention_mask,
            positions=jnp.zeros((jnp.shape(input_ids)[0], 1), jnp.int32),
            dropout_key=keys[0],
            dtype=self.dtype,
        )[:, 0]
        if head.dense is None:
            state, _, _ = projection(parameters, self.architecture, state, self.dtype)
        else:
            state = dropped(state, self.dropout if head.drops_first else 0, keys[1])
            state = dense_product(parameters, head.dense, state, self.dtype)
            state = jnp.tanh(state.astype(jnp.float32))
        state = dropped(state, self.dropout, keys[2])
        return dense_product(parameters, head.output, state, self.dtype).astype(jnp.float32)

    def parameters(self, seed: int, start: Checkpoint | None = None) -> dict:
        """Weights float32 by name as before any training, a function of `seed`, or with the encoder
        of `start`; MlmError if a weight there is missing or unfit."""
        encoder, head = jax.random.split(jax.random.key(seed))
        names = self.architecture.names
        unused = (names.head_dense, names.head_norm) if self._head.dense else ()
        if start is None:
            stored = initial_parameters(self.architecture, encoder)
        else:
            stored = fitting(start.weights, self.architecture, start.place, unused)
        return {k: v for k, v in stored.items() if not k.startswith(unused)} | self._new(head)

    def _new(self, key) -> dict:
        """What the masked language model does not have: normal weights, biases of zero."""
        a, found = self.architecture, {}
        products = {self._head.dense: a.width, self._head.output: len(self.fields["id2label"])}
        for own, (name, rows) in zip(jax.random.split(key), products.items(), strict=True):
            if name:
                normal = jax.random.normal(own, (rows, a.width), jnp.float32)
                found[f"{name}.weight"] = a.initializer_range * normal
                found[f"{name}.bias"] = jnp.zeros(rows)
        return found

    def write(self, directory: str | Path, parameters: Parameters) -> None:
        """Write model.safetensors and config.json, like the exported model."""
        write_weights(parameters, Path(directory) / "model.safetensors")
        write_json(Path(directory) / "config.json", dict(self.fields))


def sequence_model(
    config: Mapping[str, Any], classes: Sequence[str], dropout: float, dtype=jnp.float32
) -> SequenceModel:
    """The model with an output for each of `classes`, or one for a number if there are none, on the
    masked language model of a config.json; MlmError with the fields that are not supported here."""
    family = config.get("model_type")
    if family not in _HEADS:
        raise MlmError(
            f"fine-tuning knows no family {family!r}. Pretrain one of: {', '.join(_HEADS)}"
        )
    known = FAMILIES[family][1].items()
    names = {field for own, (field, _) in known if own.endswith("dropout")}
    labels = classes or ["LABEL_0"]
    fields = {
        **config,
        **dict.fromkeys(sorted(names | {"classifier_dropout"}), dropout),
        "architectures": [_HEADS[family].architecture],
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
        "problem_type": "single_label_classification" if classes else "regression",
    }
    if family == "modernbert":
        fields["classifier_pooling"] = "cls"
    # Not among the weights: there are no logits of the vocabulary.
    architecture = replace(Architecture.of(fields), decoder_bias=False)
    return SequenceModel(architecture, fields, dropout, dtype)


def sequence_model_of(
    start: Checkpoint, classes: Sequence[str], dropout: float, dtype=jnp.float32
) -> SequenceModel:
    """`sequence_model` of the config.json of `start`; MlmError names the file."""
    try:
        return sequence_model(start.fields, classes, dropout, dtype)
    except MlmError as error:
        problems = error.problems if isinstance(error, ConfigError) else [str(error)]
        raise MlmError(f"{start.place}/config.json: {'; '.join(problems)}") from None
