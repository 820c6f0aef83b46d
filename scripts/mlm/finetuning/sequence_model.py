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
import numpy as np

from mlm.config.families import FAMILIES, SequenceHead, unfit_family
from mlm.foundations.atomic import write_json, write_weights
from mlm.foundations.errors import ConfigError, MlmError
from mlm.model.architecture import Architecture
from mlm.model.checkpoints import Checkpoint
from mlm.model.network import DropoutKeys, Network, Parameters, ops_of
from mlm.model.weights import fitting, initial_parameters, normal

#: Streams of random numbers beyond those of the encoder's weights.
_HEAD_STREAM = 2**32


@dataclass(frozen=True)
class SequenceModel:
    """The network; `fields` are those of the config.json that goes with its weights.

    Products are computed in `dtype`, everything else in float32.
    """

    architecture: Architecture
    fields: Mapping[str, Any]
    dropout: float
    dtype: str = "float32"

    @property
    def _network(self) -> Network:
        return Network(self.architecture, ops_of("jax"), self.dtype)

    @property
    def _head(self) -> SequenceHead:
        return FAMILIES[self.architecture.family].sequence_head

    def length(self, most: int) -> int:
        """Tokens of a text that are read: `most`, or what the table of positions has room for."""
        longest = self.architecture.longest_row
        return most if longest is None else min(most, longest)

    def logits(self, parameters: Parameters, input_ids, attention_mask, dropout_key=None):
        """Outputs float32 [batch, outputs] of `input_ids` and `attention_mask`, int32 [batch,
        length]. Without `dropout_key` nothing is dropped."""
        head, network, keys, of_network = self._head, self._network, [None] * 3, None
        if dropout_key is not None:
            keys = jax.random.split(dropout_key, 3)
            of_network = split_keys(keys[0], self.architecture.layers)
            keys = jax.random.key_data(keys)
        state = network.hidden_states(
            parameters,
            input_ids,
            attention_mask,
            positions=jnp.zeros((jnp.shape(input_ids)[0], 1), jnp.int32),
            dropout_keys=of_network,
        )[:, 0]
        if head.dense is None:
            state, _, _ = network.projection(parameters, state)
        else:
            state = network.dropped(state, self.dropout if head.drops_first else 0, keys[1])
            state = network.dense(parameters, head.dense, state)
            state = network.activated(head.activation, state.astype(jnp.float32))
        state = network.dropped(state, self.dropout, keys[2])
        return network.dense(parameters, head.output, state).astype(jnp.float32)

    def parameters(self, seed: int, start: Checkpoint | None = None) -> dict:
        """Weights float32 by name as before any training, a function of `seed`, or with the encoder
        of `start`; MlmError if a weight there is missing or unfit."""
        names = self.architecture.names
        unused = (names.head_dense, names.head_norm) if self._head.dense else ()
        if start is None:
            stored = initial_parameters(self.architecture, seed)
        else:
            stored = fitting(start.weights, self.architecture, start.place, unused)
        return {k: v for k, v in stored.items() if not k.startswith(unused)} | self._new(seed)

    def _new(self, seed: int) -> dict:
        """What the masked language model does not have: normal weights, biases of zero."""
        a, weights = self.architecture, {}
        products = {self._head.dense: a.width, self._head.output: len(self.fields["id2label"])}
        for number, (name, rows) in enumerate(products.items()):
            if name:
                shape, stream = (rows, a.width), _HEAD_STREAM + number
                weights[f"{name}.weight"] = normal(seed, stream, shape, a.initializer_range)
                weights[f"{name}.bias"] = np.zeros(rows, np.float32)
        return weights

    def write(self, directory: str | Path, parameters: Parameters) -> None:
        """Write model.safetensors and config.json, like the exported model."""
        write_weights(parameters, Path(directory) / "model.safetensors")
        write_json(Path(directory) / "config.json", dict(self.fields))


def sequence_model(
    config: Mapping[str, Any], classes: Sequence[str], dropout: float, dtype: str = "float32"
) -> SequenceModel:
    """The model with an output for each of `classes`, or one for a number if there are none, on the
    masked language model of a config.json; MlmError with the fields that are not supported here."""
    family = config.get("model_type")
    if reason := unfit_family(family):
        raise MlmError(f"model_type: {reason}")
    labels, head = classes or ["LABEL_0"], FAMILIES[family].sequence_head
    rates = FAMILIES[family].dropout_fields | ({head.dropout} if head.dropout else set())
    fields = {
        **config,
        **dict.fromkeys(sorted(rates), dropout),
        **head.fields,
        "architectures": [head.architecture],
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
        "problem_type": "single_label_classification" if classes else "regression",
    }
    # Not among the weights: there are no logits of the vocabulary.
    architecture = replace(Architecture.of(fields), decoder_bias=False)
    return SequenceModel(architecture, fields, dropout, dtype)


def sequence_model_of(
    start: Checkpoint, classes: Sequence[str], dropout: float, dtype: str = "float32"
) -> SequenceModel:
    """`sequence_model` of the config.json of `start`; MlmError names the file."""
    try:
        return sequence_model(start.fields, classes, dropout, dtype)
    except MlmError as error:
        problems = error.problems if isinstance(error, ConfigError) else [str(error)]
        raise MlmError(f"{start.place}/config.json: {'; '.join(problems)}") from None


def split_keys(key, layers: int) -> DropoutKeys:
    """What follows from a key of `jax.random` for a network of so many `layers`."""
    places = jax.random.split(key, layers + 1)
    of_layers = jax.vmap(lambda key: jax.random.split(key, 4))(places[:-1])
    return DropoutKeys(*map(jax.random.key_data, (places[-1], of_layers)))
