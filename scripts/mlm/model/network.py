"""The encoder and its head as functions of a flat dictionary of weights, for every framework.

Weights, residuals, norms and softmax are float32; products are in the network's `dtype`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple, Self

from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture

Parameters = Mapping[str, Any]
#: From this number of queries on, attention is computed for `_QUERIES` of them at a time, and again
#: for the gradient. In shorter rows, scores take less memory than the rest of a layer.
LONG = 512
#: At most so many queries at a time: the rows that a TPU's matrix unit multiplies at once.
_QUERIES = 128
#: The share of tokens that ESM's trainings replaced by the mask.
_ESM_MASKED = 0.15 * 0.8


def ops_of(framework: str) -> Any:
    """Import the module of operations in "jax" or in "tensorflow".

    Network, loss, optimizers and steps are written once, on functions that both modules have, under
    the names of NumPy or of `jax.lax` where these have them; each is written for the speed of its
    framework.
    """
    return import_module(f"mlm.model.{framework}_ops")


class Tokens(NamedTuple):
    """Position in the row int32 [1 or batch, tokens], whether it is no padding, bool, and document
    id int32 [batch, tokens], of each token; `document` is None if each row is one document."""

    position: Any
    not_padding: Any
    document: Any | None

    def map(self, function: Callable) -> Self:
        return type(self)(*(None if x is None else function(x) for x in self))


class DropoutKeys(NamedTuple):
    """Keys, two uint32 words each, of what a step drops: of the embeddings [2], and of each layer
    [layers, 4, 2] for attention, its output, the activations and their output."""

    embeddings: Any
    layers: Any


@dataclass(frozen=True)
class Network:
    """An encoder with the head of masked language modelling, computed by `ops`, of `ops_of`.

    Products are in `dtype`; attention to whole rows is by "xla" or by "cudnn"; `rematerialise`
    keeps only each layer's input for the gradient (Chen et al., 2016).
    """

    architecture: Architecture
    ops: Any
    dtype: str = "float32"
    attention: str = "xla"
    rematerialise: bool = False

    def hidden_states(
        self,
        parameters: Parameters,
        input_ids,
        attention_mask,
        *,
        positions=None,
        documents=None,
        dropout_keys: DropoutKeys | None = None,
        lane: int = 0,
    ):
        """Return the encoder's output, float32 [batch, sequence, width].

        `input_ids` and `attention_mask` are int32 [batch, sequence]. With `positions` int32 [batch,
        slots] the last layer computes these alone: [batch, slots, width]. `documents` int32 [batch,
        sequence] numbers documents: attention stays within each, and position ids begin anew.
        Without `dropout_keys` nothing is dropped. `lane` is the number of this batch among the
        equal parts of a larger one, which together drop what the whole would. Raises MlmError if a
        row is longer than the table of positions.
        """
        a, names, ops = self.architecture, self.architecture.names, self.ops
        length = input_ids.shape[1]
        if a.longest_row is not None and length > a.longest_row:
            raise MlmError(
                f"a row of {length} tokens, but the {a.family} has positions for "
                f"{a.longest_row}; shorten the rows, or raise max_position_embeddings"
            )
        position_ids = self._position_ids(input_ids, documents)
        hidden = ops.rows_at(parameters[f"{names.words}.weight"], input_ids)
        if a.zero_masks:
            hidden = self._without_masked(hidden, input_ids, attention_mask)
        if names.positions:
            hidden += ops.rows_at(parameters[f"{names.positions}.weight"], position_ids)
        if names.token_types:
            hidden += parameters[f"{names.token_types}.weight"][0]
        if names.embedding_norm:
            hidden = self._norm(parameters, names.embedding_norm, hidden)
        if dropout_keys is not None:
            hidden = self.dropped(hidden, a.embedding_dropout, dropout_keys.embeddings, lane)
        if a.projects_embeddings and names.embedding_projection:
            hidden = self.dense(parameters, names.embedding_projection, hidden)
            hidden = ops.cast(hidden, "float32")
        tokens = Tokens(ops.reshape(ops.arange(length), (1, length)), attention_mask > 0, documents)
        rotations = [self._rotation(position_ids, theta) for theta in a.thetas]
        for index in range(a.layers):
            prefix = a.layer_prefix(index)
            weights = {
                name.removeprefix(prefix): value
                for name, value in parameters.items()
                if name.startswith(prefix)
            }
            rotation = rotations[index in a.local_layers] if rotations else None
            keys = None if dropout_keys is None else dropout_keys.layers[index]
            chosen = positions if index == a.layers - 1 else None
            layer = partial(self._layer, index, chosen, lane)
            layer = ops.rematerialised(layer) if self.rematerialise else layer
            hidden = layer(weights, hidden, tokens, rotation, keys)
        if names.final_norm:
            hidden = self._norm(parameters, names.final_norm, hidden)
        return hidden

    def projection(self, parameters: Parameters, hidden):
        """Return the states float32 [..., embedding] of the head for `hidden` [..., width], and
        table [vocabulary, embedding] and bias [vocabulary]: logits are states · tableᵀ + bias."""
        a, names = self.architecture, self.architecture.names
        states = self.ops.cast(self.dense(parameters, names.head_dense, hidden), "float32")
        states = self.activated(a.head_activation, states)
        states = self._norm(parameters, names.head_norm, states)
        bias = parameters[names.decoder_bias] if a.decoder_bias else self.ops.zeros(a.vocabulary)
        return states, parameters[f"{names.words}.weight"], bias

    def logits(self, parameters: Parameters, hidden):
        """Return the logits float32 [..., vocabulary] of `hidden` [..., width]."""
        states, table, bias = self.projection(parameters, hidden)
        weights = {"decoder.weight": table}
        return self.ops.cast(self.dense(weights, "decoder", states), "float32") + bias

    def dense(self, parameters: Parameters, name: str, x):
        """Apply the dense layer `name` to `x` [..., inputs]: [..., outputs] in `dtype`."""
        ops, bias = self.ops, parameters.get(f"{name}.bias")
        weight = ops.cast(parameters[f"{name}.weight"], self.dtype)
        bias = None if bias is None else ops.cast(bias, self.dtype)
        return ops.dense(ops.cast(x, self.dtype), weight, bias)

    def dropped(self, x, rate: float, key, lane: int = 0):
        """Apply dropout to `x`, by a hash of each entry's position and the key: on a CPU, much
        faster than random numbers. Without a key, return `x`."""
        if key is None or not rate:
            return x
        return _fused_dropout(self.ops, rate, lane)(x, key[0], key[1])

    def _without_masked(self, hidden, input_ids, attention_mask):
        """Return embeddings that are 0 at masked tokens, the others scaled to make up for them: by
        the row's share of unmasked tokens, relative to that of ESM's trainings."""
        ops = self.ops
        masked = input_ids == self.architecture.mask
        tokens, hidden_ones = (
            ops.sum(ops.cast(x, "float32"), axis=1)[:, None, None] for x in (attention_mask, masked)
        )
        scale = (1 - _ESM_MASKED) * tokens / ops.maximum(tokens - hidden_ones, 1.0)
        return ops.where(masked[:, :, None], 0.0, hidden) * scale

    def _position_ids(self, input_ids, documents):
        """Return position ids, int32 [1 or batch, sequence], which begin anew with each document;
        RoBERTa counts what is not padding, from after the padding's id."""
        ops, padding = self.ops, self.architecture.padding
        if padding is None:
            counted = ops.ones_like(input_ids[:1])
        else:
            counted = ops.cast(input_ids != padding, "int32")
        count = ops.cumsum(counted, axis=1)
        if documents is not None:
            begins = documents[:, 1:] != documents[:, :-1]
            begins = ops.concatenate([ops.zeros_like(begins[:, :1]), begins], axis=1)
            count -= ops.cummax(ops.where(begins, count - counted, 0))
        return count - 1 if padding is None else count * counted + padding

    def _norm(self, parameters: Parameters, name: str, x):
        """Apply layer normalisation to the last axis, in float32."""
        x = self.ops.normalised(x, self.architecture.norm_epsilon)
        x *= parameters[f"{name}.weight"]
        bias = parameters.get(f"{name}.bias")
        return x if bias is None else x + bias

    def activated(self, name: str, x):
        """Apply the activation `name` of config.json."""
        return self.ops.gelu(x) if name == "gelu" else _ACTIVATIONS[name](self.ops, x)

    def _layer(
        self, index: int, positions, lane: int, weights, hidden, tokens: Tokens, rotation, keys
    ):
        """Return a layer's output [batch, sequence, width], or at `positions` alone."""
        a, names, ops = self.architecture, self.architecture.names, self.ops
        half_window = a.window // 2 if index in a.local_layers else None
        keys = [None] * 4 if keys is None else keys
        drop = partial(self.dropped, lane=lane)
        drop_shares = partial(drop, rate=a.attention_dropout, key=keys[0])

        def at(x):
            return x if positions is None else ops.positions_of(x, positions)

        read = hidden
        # ModernBERT's first layer (gated) has no norm here: the embeddings are normalised.
        if a.pre_norm and not (a.gated and index == 0):
            read = self._norm(weights, names.attention_norm, hidden)
        if len(names.projections) == 1:
            query, key, value = ops.split(self.dense(weights, names.projections[0], read), 3, -1)
            query = at(query)
        else:
            inputs = at(read), read, read
            query, key, value = (
                self.dense(weights, name, x)
                for name, x in zip(names.projections, inputs, strict=True)
            )
        hidden, queries = at(hidden), tokens.map(at)
        query, key, value = (self._heads(x) for x in (query, key, value))
        if rotation is not None:
            query, key = self._rotated(query, map(at, rotation)), self._rotated(key, rotation)
        heads = query, key, value, queries, tokens, half_window
        if half_window is not None and positions is None:
            output = self._local_attention(*heads, drop_shares)
        elif self.attention == "cudnn" and query.shape[1] % 2 == 0:  # cuDNN's condition
            output = self._attention_by_cudnn(*heads)
        else:
            output = self._whole_attention(*heads, drop_shares)
        output = self.dense(weights, names.attended, ops.reshape(output, hidden.shape))
        hidden += drop(ops.cast(output, "float32"), a.attended_dropout, keys[1])
        hidden = hidden if a.pre_norm else self._norm(weights, names.attention_norm, hidden)

        read = self._norm(weights, names.output_norm, hidden) if a.pre_norm else hidden

        def feed_forward(ffn):
            ffn = ops.cast(ffn, "float32")
            ffn, gate = ops.split(ffn, 2, -1) if a.gated else (ffn, None)
            ffn = self.activated(a.activation, ffn)
            ffn = ffn if gate is None else ffn * gate
            return self.dense(weights, names.output, drop(ffn, a.inner_dropout, keys[2]))

        # Without stored scores (cuDNN), activations take the most memory: compute them again.
        again = ops.rematerialised if self.attention == "cudnn" else lambda f: f
        output = ops.cast(again(feed_forward)(self.dense(weights, names.inner, read)), "float32")
        hidden += drop(output, a.output_dropout, keys[3])
        return hidden if a.pre_norm else self._norm(weights, names.output_norm, hidden)

    def _heads(self, x):
        """Split the last axis: [batch, tokens, heads, width of a head]."""
        heads = self.architecture.heads
        return self.ops.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))

    def _rotation(self, position_ids, theta: float):
        """Return cosines and sines [1 or batch, sequence, 1, head width / 2] (Su et al., 2021)."""
        ops, width = self.ops, self.architecture.width // self.architecture.heads
        frequencies = theta ** (-ops.cast(ops.arange(0, width, 2), "float32") / width)
        angles = ops.cast(position_ids[:, :, None, None], "float32") * frequencies
        return ops.cos(angles), ops.sin(angles)

    def _rotated(self, x, rotation):
        """Apply rotary positions to `x` [batch, tokens, heads, width]."""
        cosine, sine = rotation
        one, other = self.ops.split(self.ops.cast(x, "float32"), 2, -1)
        turned = [one * cosine - other * sine, other * cosine + one * sine]
        return self.ops.cast(self.ops.concatenate(turned, axis=-1), self.dtype)

    def _attention(self, query, key, value, queries, keys, half_window, drop: Callable):
        """Return softmax attention [batch, queries, heads, width] to the whole of `key`."""
        ops = self.ops
        shares = ops.attention_shares(query, key, _mask(ops, queries, keys, half_window))
        return ops.attention_output(ops.cast(drop(shares), self.dtype), value)

    def _attention_by_cudnn(self, query, key, value, queries, keys, half_window):
        """`_attention` by a kernel that stores no scores; padding must be at the end of a row."""
        mask = None
        if keys.document is not None or half_window is not None:
            size = query.shape[0], 1, query.shape[1], key.shape[1]
            mask = self.ops.broadcast_to(_mask(self.ops, queries, keys, half_window), size)
        return self.ops.attention_by_cudnn(query, key, value, mask, keys.not_padding)

    def _whole_attention(self, query, *arguments):
        """`_attention` to the whole row, however long it is."""
        short = self.ops.map_blocks is None or query.shape[1] < LONG
        return (self._attention if short else self._attention_by_queries)(query, *arguments)

    def _attention_by_queries(self, query, key, value, queries, keys, half_window, drop: partial):
        """`_attention` of some queries at a time; scores are computed again for the gradient."""
        ops, dtype, (batch, length) = self.ops, self.dtype, query.shape[:2]
        # In float32, as their gradients are sums over all blocks: bfloat16 has too few digits.
        key, value = ops.cast(key, "float32"), ops.cast(value, "float32")
        count = -(-length // _QUERIES)
        size = -(-length // count)

        def blocks(x):
            x = ops.broadcast_to(x, (batch, *x.shape[1:]))
            x = ops.pad(x, [(0, 0), (0, count * size - length), *[(0, 0)] * (len(x.shape) - 2)])
            return ops.swapaxes(ops.reshape(x, (batch, count, size, *x.shape[2:])), 0, 1)

        def of_block(block):
            number, query, queries = block
            heads = query, ops.cast(key, dtype), ops.cast(value, dtype)
            dropout_key = drop.keywords["key"]
            if dropout_key is not None:
                dropout_key = ops.fold_in(dropout_key, number)
            drop_block = partial(drop, key=dropout_key)
            return self._attention(*heads, queries, keys, half_window, drop_block)

        of_block = ops.rematerialised(of_block, in_loop=True)
        heads = ops.map_blocks(of_block, (ops.arange(count), blocks(query), queries.map(blocks)))
        heads = ops.swapaxes(heads, 0, 1)
        return ops.reshape(heads, (batch, count * size, *heads.shape[3:]))[:, :length]

    def _local_attention(self, query, key, value, queries, keys, half_window, drop: Callable):
        """`_attention` of blocks of the row to themselves and their two neighbours. Blocks are the
        shortest of at least `half_window` that divide the row; without any, it is to whole rows."""
        ops, (batch, length) = self.ops, query.shape[:2]
        sizes = range(max(half_window, 1), length)
        size = next((n for n in sizes if length % n == 0), length)
        if 3 * size >= length:
            return self._whole_attention(query, key, value, queries, keys, half_window, drop)

        def blocks(x):
            x = ops.broadcast_to(x, (batch, *x.shape[1:]))
            return ops.reshape(x, (batch, length // size, size, *x.shape[2:]))

        def by_block(x):
            return ops.reshape(blocks(x), (-1, size, *x.shape[2:]))

        def around(x):
            # Before the first block and after the last, zeros: not_padding is False there.
            padded = ops.pad(blocks(x), [(0, 0), (1, 1), *[(0, 0)] * (len(x.shape) - 1)])
            three = ops.concatenate([padded[:, :-2], padded[:, 1:-1], padded[:, 2:]], axis=2)
            return ops.reshape(three, (-1, 3 * size, *x.shape[2:]))

        attention = partial(self._attention, half_window=half_window, drop=drop)
        attention = ops.rematerialised(attention) if length >= LONG else attention
        heads = by_block(query), around(key), around(value)
        heads = attention(*heads, queries.map(by_block), keys.map(around))
        return ops.reshape(heads, (batch, length, *heads.shape[2:]))


def document_numbers(ops, input_ids, begins_document: int):
    """Return the document id of each token: a document begins with `begins_document`."""
    return ops.cumsum(ops.cast(input_ids == begins_document, "int32"), axis=1)


def _mask(ops, queries: Tokens, keys: Tokens, half_window: int | None):
    """Return which keys a query attends to: bool [batch, 1, 1 or queries, keys]."""
    mask = keys.not_padding[:, None, None, :]
    if keys.document is not None and queries.document is not None:
        same = queries.document[:, None, :, None] == keys.document[:, None, None, :]
        mask = mask & same
    if half_window is not None:
        distance = queries.position[:, None, :, None] - keys.position[:, None, None, :]
        mask = mask & (ops.abs(distance) <= half_window)
    return mask


@cache
def _fused_dropout(ops, rate: float, lane: int) -> Callable:
    return ops.fused(partial(_dropped, ops, rate, lane))


def _dropped(ops, rate: float, lane: int, x, *key):
    """Keep entries of `x` if a hash of their position is at least `rate` * 2**32, else return 0:
    two rounds of lowbias32 (Wellons, 2018), with a word of the `key` before each."""
    bits = ops.places(x.shape)
    if lane:
        bits = bits + ops.uint32(lane * math.prod(x.shape) % 2**32)
    for word in key:
        bits = ops.bitwise_xor(bits, word)
        bits = ops.bitwise_xor(bits, ops.right_shift(bits, 16)) * ops.uint32(0x7FEB352D)
        bits = ops.bitwise_xor(bits, ops.right_shift(bits, 15)) * ops.uint32(0x846CA68B)
        bits = ops.bitwise_xor(bits, ops.right_shift(bits, 16))
    return ops.where(bits >= ops.uint32(int(rate * 2**32)), x / (1 - rate), 0.0)


def _gelu_by_tanh(ops, x):
    """The approximation of GELU by the hyperbolic tangent (Hendrycks and Gimpel, 2016)."""
    return x * (0.5 * (1.0 + ops.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x**3)))))


#: By name, except "gelu", which `ops` has.
_ACTIVATIONS = {
    "gelu_new": _gelu_by_tanh,
    "gelu_pytorch_tanh": _gelu_by_tanh,
    "relu": lambda ops, x: ops.maximum(x, 0.0),
    "silu": lambda ops, x: x * ops.sigmoid(x),
    "tanh": lambda ops, x: ops.tanh(x),
}
