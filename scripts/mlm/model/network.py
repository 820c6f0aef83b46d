"""The encoder and its head as pure functions of a flat dictionary of weights.

Weights, residuals, norms and softmax are float32; products are in `dtype`.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture

Parameters = Mapping[str, jax.Array]

#: From so many queries on, attention is computed for `_QUERIES` of them at a time, and again for
#: the gradient: the scores of shorter rows take less room than the rest of a layer.
LONG = 512
#: At most so many: the rows that the product of a TPU takes at once.
_QUERIES = 128


def _gelu(x):
    """x · Φ(x) (Hendrycks and Gimpel, 2016), on a CPU faster than jax.nn.gelu."""
    return x * (0.5 + 0.5 * jax.lax.erf(math.sqrt(0.5) * x))


_ACTIVATIONS = {
    "gelu": _gelu,
    "gelu_new": partial(jax.nn.gelu, approximate=True),
    "gelu_pytorch_tanh": partial(jax.nn.gelu, approximate=True),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
}


class Tokens(NamedTuple):
    """Of each token: its place in the row int32 [1 or batch, tokens], whether it is seen bool
    [batch, tokens], and its document int32 [batch, tokens]; None if each row is one."""

    place: jax.Array
    seen: jax.Array
    document: jax.Array | None


def hidden_states(
    parameters: Parameters,
    architecture: Architecture,
    input_ids,
    attention_mask,
    *,
    positions=None,
    documents=None,
    dropout_key=None,
    rematerialise: bool = False,
    dtype=jnp.float32,
    attention: str = "xla",
):
    """What the last layer, or the norm after it, gives: float32 [batch, sequence, width].

    `input_ids` and `attention_mask` are int32 [batch, sequence]. With `positions` int32 [batch,
    slots] the last layer continues at these alone: [batch, slots, width]. `documents` int32 [batch,
    sequence] numbers documents: attention stays within, and positions begin anew, with each.
    Without `dropout_key` nothing is dropped. `rematerialise` keeps only each layer's input for the
    gradient (Chen et al., 2016). `attention` to whole rows is by "xla" or by "cudnn". Raises
    MlmError if a row is longer than the table of positions.
    """
    a, names = architecture, architecture.names
    input_ids, length = jnp.asarray(input_ids), jnp.shape(input_ids)[1]
    if a.longest_row is not None and length > a.longest_row:
        raise MlmError(
            f"a row of {length} tokens, but the {a.family} has positions for "
            f"{a.longest_row}; shorten the rows, or raise max_position_embeddings"
        )
    number = _numbers(a, input_ids, documents)
    hidden = parameters[f"{names.words}.weight"][input_ids]
    if names.positions:
        hidden += parameters[f"{names.positions}.weight"][number]
        hidden += parameters[f"{names.token_types}.weight"][0]
    keys = [None] * (a.layers + 1)
    if dropout_key is not None:
        keys = jax.random.split(dropout_key, a.layers + 1)
    hidden = _norm(parameters, names.embedding_norm, hidden, a.norm_epsilon)
    hidden = dropped(hidden, a.embedding_dropout, keys[-1])
    tokens = Tokens(
        jnp.arange(length)[None],
        jnp.asarray(attention_mask) > 0,
        None if documents is None else jnp.asarray(documents),
    )
    rotations = [_rotation(number, a.width // a.heads, theta) for theta in a.thetas or ()]
    for index in range(a.layers):
        layer = partial(_layer, a, index, dtype, attention)
        chosen = positions if index == a.layers - 1 else None
        place = f"{names.layer}{index}."
        own = {k.removeprefix(place): v for k, v in parameters.items() if k.startswith(place)}
        rotation = rotations[index in a.local_layers] if rotations else None
        layer = jax.checkpoint(layer) if rematerialise else layer
        hidden = layer(own, hidden, tokens, rotation, chosen, keys[index])
    if names.final_norm:
        hidden = _norm(parameters, names.final_norm, hidden, a.norm_epsilon)
    return hidden


def document_numbers(input_ids, begins_document: int):
    """`documents` of `hidden_states`: each begins with the token `begins_document`."""
    return jnp.cumsum((input_ids == begins_document).astype(jnp.int32), axis=1)


def projection(parameters: Parameters, architecture: Architecture, hidden, dtype=jnp.float32):
    """The head before its last product, of `hidden` [..., width]: states float32 [..., width],
    table [vocabulary, width] and bias [vocabulary]; logits are states · tableᵀ + bias."""
    a, names = architecture, architecture.names
    states = dense_product(parameters, names.head_dense, hidden, dtype).astype(jnp.float32)
    states = _ACTIVATIONS[a.head_activation](states)
    states = _norm(parameters, names.head_norm, states, a.norm_epsilon)
    bias = parameters[names.decoder_bias] if a.decoder_bias else jnp.zeros(a.vocabulary)
    return states, parameters[f"{names.words}.weight"], bias


def masked_logits(parameters: Parameters, architecture: Architecture, hidden, dtype=jnp.float32):
    """Logits float32 [..., vocabulary] of `hidden` [..., width] at the masked positions."""
    states, table, bias = projection(parameters, architecture, hidden, dtype)
    return (states.astype(dtype) @ table.astype(dtype).T).astype(jnp.float32) + bias


def _numbers(a: Architecture, input_ids, documents):
    """The position of each token, int32 [1 or batch, sequence], anew with each document; RoBERTa
    counts what is not padding, from after the padding's id."""
    counted = jnp.ones_like(input_ids[:1]) if a.padding is None else input_ids != a.padding
    counted = counted.astype(jnp.int32)
    number = jnp.cumsum(counted, axis=1)
    if documents is not None:
        begins = jnp.diff(documents, axis=1, prepend=documents[:, :1]) != 0
        number -= jax.lax.cummax(jnp.where(begins, number - counted, 0), axis=1)
    return number - 1 if a.padding is None else number * counted + a.padding


def _layer(
    a: Architecture,
    index: int,
    dtype,
    attention: str,
    parameters,
    hidden,
    tokens,
    rotation,
    chosen,
    key,
):
    """A layer's output [batch, sequence, width], or at the positions `chosen` alone."""
    names, reach = a.names, a.window // 2 if index in a.local_layers else None
    keys = [None] * 4 if key is None else jax.random.split(key, 4)

    def norm(name, x):
        return _norm(parameters, name, x, a.norm_epsilon)

    def dense(name, x):
        return dense_product(parameters, name, x, dtype)

    def at(tree):
        return tree if chosen is None else jax.tree.map(lambda x: _at(x, chosen), tree)

    read = hidden
    if a.pre_norm and not (a.gated and index == 0):
        read = norm(names.attention_norm, hidden)
    if len(names.projections) == 1:
        query, key_, value = jnp.split(dense(names.projections[0], read), 3, axis=-1)
        query = at(query)
    else:
        query, key_, value = map(dense, names.projections, (at(read), read, read))
    hidden, queries, turned = at((hidden, tokens, rotation))
    query, key_, value = (x.reshape(*x.shape[:2], a.heads, -1) for x in (query, key_, value))
    if rotation is not None:
        query, key_ = _rotated(query, turned), _rotated(key_, rotation)
    heads = query, key_, value, queries, tokens, reach
    if reach is not None and chosen is None:
        attended = _local_attention(*heads, a.attention_dropout, keys[0])
    elif attention == "cudnn" and query.shape[1] % 2 == 0:  # as cuDNN asks
        attended = _attention_by_cudnn(*heads)
    else:
        attended = _whole_attention(*heads, a.attention_dropout, keys[0])
    attended = dense(names.attended, attended.reshape(hidden.shape)).astype(jnp.float32)
    hidden += dropped(attended, a.attended_dropout, keys[1])
    hidden = hidden if a.pre_norm else norm(names.attention_norm, hidden)

    inner = dense(names.inner, norm(names.output_norm, hidden) if a.pre_norm else hidden)

    def activated(inner):
        inner, *gate = jnp.split(inner.astype(jnp.float32), 2 if a.gated else 1, axis=-1)
        inner = _ACTIVATIONS[a.activation](inner)
        inner = inner * gate[0] if gate else inner
        return dense(names.output, dropped(inner, a.inner_dropout, keys[2]))

    # Where cuDNN keeps no scores, activations are the largest: they are made again.
    activated = jax.checkpoint(activated) if attention == "cudnn" else activated
    output = activated(inner).astype(jnp.float32)
    hidden += dropped(output, a.output_dropout, keys[3])
    return hidden if a.pre_norm else norm(names.output_norm, hidden)


def _norm(parameters: Parameters, name: str, x, epsilon: float):
    """Layer normalisation of the last axis, in float32."""
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    x *= jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + epsilon)
    x *= parameters[f"{name}.weight"]
    bias = parameters.get(f"{name}.bias")
    return x if bias is None else x + bias


def dense_product(parameters: Parameters, name: str, x, dtype):
    """`x` [..., inputs] by the weights `name`, plus bias if any: [..., outputs] in `dtype`."""
    bias = parameters.get(f"{name}.bias")
    weight, bias = jax.tree.map(lambda w: w.astype(dtype), (parameters[f"{name}.weight"], bias))
    return _product(x.astype(dtype), weight, bias)


@jax.custom_vjp
def _product(x, weight, bias):
    """`x` [..., inputs] · `weight`ᵀ + `bias` (or None), with a gradient written out for XLA on a
    CPU, which adds up columns, and turns a large factor, at a tenth of the speed."""
    return x @ weight.T if bias is None else x @ weight.T + bias


def _product_forward(x, weight, bias):
    return _product(x, weight, bias), (x, weight, bias)


def _product_backward(kept, given):
    x, weight, bias = kept
    of_x = given @ weight
    x, given = (value.reshape(-1, value.shape[-1]) for value in (x, given))
    narrow = given.shape[1] < x.shape[1]
    of_weight = given.T @ x if narrow else (x.T @ given).T
    of_bias = None if bias is None else jnp.ones(len(given), given.dtype) @ given
    return of_x, of_weight, of_bias


_product.defvjp(_product_forward, _product_backward)


def dropped(x, rate: float, key):
    """`x` with a share `rate` of zeros and the rest scaled up; unchanged without a key. What is
    dropped is a hash of its place and the key: jax.random takes a CPU several times as long."""
    if key is None or not rate:
        return x
    kept = _hashes(jax.random.key_data(key), x.shape) >= jnp.uint32(rate * 2**32)
    return jnp.where(kept, x / (1 - rate), 0)


def _hashes(key, shape):
    """uint32 of `shape`: two rounds of the hash lowbias32 (Wellons, 2018) of places modulo 2**32,
    with one word of the `key`, uint32 [2], before each."""
    places = jnp.zeros(shape, jnp.uint32)
    for axis, size in enumerate(shape):
        places = places * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    for word in key:
        places ^= word
        places = (places ^ (places >> 16)) * jnp.uint32(0x7FEB352D)
        places = (places ^ (places >> 15)) * jnp.uint32(0x846CA68B)
        places ^= places >> 16
    return places


def _at(x, chosen):
    """[1 or batch, sequence, ...] at `chosen` [batch, slots]: [batch, slots, ...]."""
    x = jnp.broadcast_to(x, (chosen.shape[0], *x.shape[1:]))
    return jnp.take_along_axis(x, chosen.reshape(*chosen.shape, *[1] * (x.ndim - 2)), axis=1)


def _rotation(number, width: int, theta: float):
    """Cosines and sines [1 or batch, sequence, 1, width / 2] (Su et al., 2021)."""
    frequencies = theta ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
    angles = number[:, :, None, None].astype(jnp.float32) * frequencies
    return jnp.cos(angles), jnp.sin(angles)


def _rotated(x, rotation):
    """[batch, tokens, heads, width], its two halves turned against each other."""
    cosine, sine = rotation
    one, other = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = (one * cosine - other * sine, other * cosine + one * sine)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def _mask(queries: Tokens, keys: Tokens, reach: int | None):
    """Which keys a query sees: bool [batch, 1, 1 or queries, keys]."""
    mask = keys.seen[:, None, None, :]
    if keys.document is not None:
        mask &= queries.document[:, None, :, None] == keys.document[:, None, None, :]
    if reach is not None:
        apart = queries.place[:, None, :, None] - keys.place[:, None, None, :]
        mask &= jnp.abs(apart) <= reach
    return mask


def _attention_by_cudnn(query, key, value, queries: Tokens, keys: Tokens, reach):
    """`_attention` by a kernel that keeps no scores; padding is at the end of a row."""
    mask, seen = None, jnp.sum(keys.seen, axis=1, dtype=jnp.int32)
    if keys.document is not None or reach is not None:
        size = query.shape[0], 1, query.shape[1], key.shape[1]
        mask, seen = jnp.broadcast_to(_mask(queries, keys, reach), size), None
    return jax.nn.dot_product_attention(
        query, key, value, mask=mask, key_value_seq_lengths=seen, implementation="cudnn"
    )


def _attention(query, key, value, queries: Tokens, keys: Tokens, reach, rate: float, dropout_key):
    """Softmax attention [batch, queries, heads, width]; jax.nn.dot_product_attention cannot drop,
    and on a CPU takes half as long again."""
    mask = _mask(queries, keys, reach)
    scores = jnp.einsum("btnh,bsnh->bnts", query, key).astype(jnp.float32)
    scores = jnp.where(mask, scores / math.sqrt(query.shape[-1]), jnp.finfo(jnp.float32).min)
    shares = dropped(jax.nn.softmax(scores), rate, dropout_key).astype(value.dtype)
    return jnp.einsum("bnts,bsnh->btnh", shares, value)


def _whole_attention(query, key, value, queries, keys, reach, rate, dropout_key):
    """`_attention` to the whole row, however long it is."""
    attention = _attention if query.shape[1] < LONG else _attention_by_queries
    return attention(query, key, value, queries, keys, reach, rate, dropout_key)


def _attention_by_queries(query, key, value, queries, keys, reach, rate, dropout_key):
    """`_attention` of some queries at a time, whose scores are made again for the gradient."""
    batch, length = query.shape[:2]
    dtype = query.dtype
    # The gradients of all blocks are added up, which bfloat16 is too short for.
    key, value = key.astype(jnp.float32), value.astype(jnp.float32)
    count = -(-length // _QUERIES)
    size = -(-length // count)

    def blocks(x):
        x = jnp.broadcast_to(x, (batch, *x.shape[1:]))
        x = jnp.pad(x, [(0, 0), (0, count * size - length), *[(0, 0)] * (x.ndim - 2)])
        return x.reshape(batch, count, size, *x.shape[2:]).swapaxes(0, 1)

    @partial(jax.checkpoint, prevent_cse=False)  # in a loop nothing is shared anyway
    def attended(block):
        number, query, queries = block
        own = None if dropout_key is None else jax.random.fold_in(dropout_key, number)
        return _attention(
            query, key.astype(dtype), value.astype(dtype), queries, keys, reach, rate, own
        )

    found = jax.lax.map(attended, (jnp.arange(count), *jax.tree.map(blocks, (query, queries))))
    return found.swapaxes(0, 1).reshape(batch, -1, *found.shape[3:])[:, :length]


def _local_attention(query, key, value, queries, keys, reach, rate, dropout_key):
    """`_attention` of blocks of the row to themselves and their two neighbours. Blocks are the
    shortest that divide the row and are no shorter than `reach`; other rows are attended whole."""
    batch, length = query.shape[:2]
    size = next((n for n in range(max(reach, 1), length) if length % n == 0), length)
    if 3 * size >= length:
        return _whole_attention(query, key, value, queries, keys, reach, rate, dropout_key)

    def blocks(x):
        x = jnp.broadcast_to(x, (batch, *x.shape[1:]))
        return x.reshape(batch, length // size, size, *x.shape[2:])

    def own(x):
        return blocks(x).reshape(-1, size, *x.shape[2:])

    def around(x):
        # What is before the first block and after the last is zeros: not seen.
        padded = jnp.pad(blocks(x), [(0, 0), (1, 1), *[(0, 0)] * (x.ndim - 1)])
        three = jnp.concatenate([padded[:, :-2], padded[:, 1:-1], padded[:, 2:]], axis=2)
        return three.reshape(-1, 3 * size, *x.shape[2:])

    query, queries = jax.tree.map(own, (query, queries))
    key, value, keys = jax.tree.map(around, (key, value, keys))
    attention = _attention
    if length >= LONG:
        attention = jax.checkpoint(_attention, static_argnums=(5, 6))
    found = attention(query, key, value, queries, keys, reach, rate, dropout_key)
    return found.reshape(batch, length, *found.shape[2:])
