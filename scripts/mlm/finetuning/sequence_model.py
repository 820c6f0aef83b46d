"""An encoder with a head for a task, and the task's loss: one output of each text or class, or one
of each token and tag.

The heads and their names are those of transformers' models, so that these open what is written. All
for texts read the last state of the first token. Unlike there, one dropout probability applies
throughout, and the last layer computes the first token alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlm.config.families import FAMILIES, SequenceHead
from mlm.foundations.atomic import write_json, write_weights
from mlm.foundations.errors import ConfigError, MlmError
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.initialisation import initial_parameters, normal
from mlm.model.model_files import Checkpoint, fitting
from mlm.model.network import DropoutKeys, Network, Parameters, ops_of
from mlm.training.train_step import Computation

#: Streams of random numbers beyond those of the encoder's weights.
_HEAD_STREAM = 2**32


@dataclass(frozen=True, kw_only=True)
class SequenceModel(Computation):
    """The network with its head; `fields` are those of the config.json that goes with its weights.
    Products are computed in the network's dtype, everything else in float32."""

    fields: Mapping[str, Any]
    head: SequenceHead
    dropout: float

    @property
    def dropping_layers(self) -> int:
        # The head drops twice, by the keys of one more layer.
        return super().dropping_layers + 1

    @property
    def tags_words(self) -> bool:
        """Whether there is an output for each token."""
        return tags_words(self.fields)

    @property
    def classes(self) -> list[str]:
        """Names of the classes; none for a regression."""
        is_regression = self.fields.get("problem_type") == "regression"
        return [] if is_regression else list(self.fields["label2id"])

    def length(self, *limits: int | None) -> int | None:
        """Tokens of a text that are read: the least of `limits` and positions; None without any."""
        longest = self.network.architecture.longest_row
        return min((limit for limit in (*limits, longest) if limit is not None), default=None)

    def logits(
        self,
        parameters: Parameters,
        input_ids,
        attention_mask,
        dropout_keys: DropoutKeys | None = None,
        lane: int = 0,
    ):
        """Outputs float32 [batch, outputs], or [batch, length, outputs], of `input_ids` and
        `attention_mask`, int32 [batch, length]. Without `dropout_keys` nothing is dropped."""
        head, network, keys = self.head, self.network, [None, None]
        if dropout_keys is not None:
            keys = dropout_keys.layers[network.architecture.layers]
        state = network.hidden_states(
            parameters,
            input_ids,
            attention_mask,
            positions=None if self.tags_words else network.ops.zeros_like(input_ids[:, :1]),
            dropout_keys=dropout_keys,
            lane=lane,
        )
        state = state if self.tags_words else state[:, 0]
        if head.projects:
            state, _, _ = network.projection(parameters, state)
        elif head.dense:
            state = network.dropped(state, self.dropout if head.drops_first else 0, keys[0], lane)
            state = network.dense(parameters, head.dense, state)
            state = network.activated(head.activation, network.ops.cast(state, "float32"))
        state = network.dropped(state, self.dropout, keys[1], lane)
        return network.ops.cast(network.dense(parameters, head.output, state), "float32")

    def weighted_sums(
        self, parameters, batch: dict, dropout_keys=None, drawn=None, lane: int = 0
    ) -> tuple:
        """Weighted sums over a `batch` of the squared error, or of the cross-entropy in nats and of
        right classes; `labels` are float32, or the numbers of classes."""
        ops, labels, weights = self.network.ops, batch["labels"], batch["weights"]
        rows = batch["input_ids"], batch["attention_mask"]
        logits = self.logits(parameters, *rows, dropout_keys, lane)
        if not self.classes:
            losses, right = ops.square(logits[..., 0] - labels), ops.zeros_like(labels)
        else:
            label_logits = ops.take_along_axis(logits, labels[..., None], -1)[..., 0]
            losses = -ops.take_along_axis(ops.log_softmax(logits), labels[..., None], -1)[..., 0]
            right = ops.cast(label_logits >= ops.max(logits, -1), "float32")
        return ops.sum(losses * weights), ops.sum(right * weights)

    def parameters(self, seed: int, start: Checkpoint | None = None) -> dict[str, np.ndarray]:
        """Weights float32 by name as before any training, a function of `seed`, or with the encoder
        of `start`; MlmError if a weight there is missing or unfit."""
        architecture, head = self.network.architecture, self.head
        names = architecture.names
        unused = () if head.projects else (names.head_dense, names.head_norm)
        if start is None:
            stored = initial_parameters(architecture, seed)
        else:
            without = [n for n in parameter_shapes(architecture) if n.startswith(unused)]
            stored = fitting(start.weights, architecture, start.place, without)
        weights = {k: v for k, v in stored.items() if not k.startswith(unused)}
        products = {head.dense: architecture.width, head.output: len(self.fields["id2label"])}
        for number, (name, rows) in enumerate(products.items()):
            if name:
                how = (rows, architecture.width), architecture.initializer_range
                weights[f"{name}.weight"] = normal(seed, _HEAD_STREAM + number, *how)
                weights[f"{name}.bias"] = np.zeros(rows, np.float32)
        return weights

    def write(self, directory: str | Path, parameters: Mapping[str, np.ndarray]) -> None:
        """Write model.safetensors and config.json, like the exported model."""
        write_weights(parameters, Path(directory) / "model.safetensors")
        write_json(Path(directory) / "config.json", dict(self.fields))


def sequence_model(
    config: Mapping[str, Any],
    classes: Sequence[str],
    dropout: float,
    dtype: str = "float32",
    place: str = "",
    of_tokens: bool = False,
) -> SequenceModel:
    """The model with an output for each of `classes`, or one for a number if there are none, for
    texts or `of_tokens`, on the encoder of a config.json in the directory `place`; MlmError with
    the fields that are not supported here."""
    family = FAMILIES[config["model_type"]]
    head = family.sequence_head.of_tokens if of_tokens else family.sequence_head
    labels = classes or ["LABEL_0"]
    rates = family.dropout_fields | ({head.dropout} if head.dropout else set())
    fields = {
        **config,
        **dict.fromkeys(sorted(rates), dropout),
        **head.fields,
        "architectures": [head.architecture],
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }
    if not of_tokens:
        fields["problem_type"] = "single_label_classification" if classes else "regression"
    try:
        # Not among the weights: there are no logits of the vocabulary.
        architecture = replace(Architecture.of(fields), decoder_bias=False)
    except ConfigError as error:
        raise MlmError(f"{place}/config.json: {'; '.join(error.problems)}") from None
    network = Network(architecture, ops_of("jax"), dtype)
    return SequenceModel(network, "sample", 0, fields=fields, head=head, dropout=dropout)


def tags_words(fields: Mapping[str, Any]) -> bool:
    """Whether a config.json is of a model for token classification."""
    return str(fields.get("architectures", [""])[0]).endswith("ForTokenClassification")
