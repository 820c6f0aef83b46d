from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_encoder import dropout_keys, network_of, tiny_encoder

from mlm.model import network
from mlm.model.jax_ops import fold_in
from mlm.model.network import Tokens

#: Not a multiple of the queries at a time, so that blocks are filled up.
BATCH, LENGTH, HEADS, WIDTH = 2, 45, 2, 8


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(network, "LONG", 16)
    monkeypatch.setattr(network, "_QUERIES", 8)


def sample():
    """(query, key, value, tokens): the second row ends in padding, each has three documents."""
    random = np.random.default_rng(0)
    shape = (BATCH, LENGTH, HEADS, WIDTH)
    vectors = [random.normal(0, 1, shape).astype(np.float32) for _ in range(3)]
    not_padding = np.ones((BATCH, LENGTH), bool)
    not_padding[1, -7:] = False
    # Documents begin in other blocks than those of the queries.
    documents = np.repeat([[5, 0, 9], [1, 2, 3]], (13, 20, 12), axis=1).astype(np.int32)
    return *vectors, Tokens(
        jnp.arange(LENGTH)[None], jnp.asarray(not_padding), jnp.asarray(documents)
    )


KEY = dropout_keys(tiny_encoder("bert")[0], 0).embeddings
NETWORK = network_of(tiny_encoder("bert")[0])
NOTHING_DROPPED = partial(NETWORK.dropped, rate=0.0, key=None)


@partial(jax.jit, static_argnums=(0, 5))
def attended(attention, query, key, value, tokens, half_window):
    """What `attention` gives, and the gradients of a function of what it gives to real tokens."""

    def loss(query, key, value):
        found = attention(query, key, value, tokens, tokens, half_window, NOTHING_DROPPED)
        real = tokens.not_padding[:, :, None, None]
        return jnp.sum(jnp.where(real, jnp.sin(found), 0)), jnp.where(real, found, 0)

    gradients, found = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(query, key, value)
    return found, *gradients


@pytest.mark.parametrize(("half_window", "documents"), [(None, False), (3, True), (20, True)])
def test_in_blocks_it_and_its_gradients_are_those_of_the_whole(half_window, documents):
    query, key, value, tokens = sample()
    tokens = tokens if documents else tokens._replace(document=None)
    given = query, key, value, tokens, half_window
    blocks, whole = (
        attended(f, *given) for f in (NETWORK._attention_by_queries, NETWORK._attention)
    )
    for one, other in zip(blocks, whole, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
        assert np.abs(other).max() > 0.1
    if half_window is not None:
        local = attended(NETWORK._local_attention, *given)
        for one, other in zip(local, whole, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_what_is_dropped_for_the_gradient_is_what_was_dropped():
    """Of values that are ones, what is attended to is the sum of the shares that were kept, and
    its gradient is the share of each, which a sum over the queries tells."""
    query, key, _, tokens = sample()
    tokens = tokens._replace(document=None, not_padding=jnp.ones_like(tokens.not_padding))
    value = np.ones_like(key)

    def total(value, number):
        drop = partial(NETWORK.dropped, rate=0.5, key=fold_in(KEY, number))
        found = NETWORK._attention_by_queries(query, key, value, tokens, tokens, None, drop)
        return jnp.sum(found)

    found, gradient = jax.jit(jax.value_and_grad(total))(value, 0)
    assert float(found) == pytest.approx(float(gradient.sum()), rel=1e-5)
    assert float(found) == pytest.approx(float(jax.jit(total)(value, 0)), rel=1e-5)
    assert abs(found - jax.jit(total)(value, 1)) > 1e-2
    assert float(found) == pytest.approx(value.size, rel=0.2)


@pytest.mark.parametrize("half_window", [None, 3])
def test_memory_grows_with_the_length_and_not_with_its_square(half_window):
    local = half_window is not None
    attention = NETWORK._local_attention if local else NETWORK._attention_by_queries

    def temporaries(length):
        vector = jax.ShapeDtypeStruct((1, length, 1, 8), jnp.float32)
        places = jax.ShapeDtypeStruct((1, length), jnp.int32)
        tokens = Tokens(places, jax.ShapeDtypeStruct((1, length), bool), None)

        def loss(query, key, value, tokens):
            # As in four layers: what the first one keeps is in memory with the last.
            how = tokens, tokens, half_window, NOTHING_DROPPED
            for _ in range(4):
                query = attention(query, key, value, *how)
            return jnp.sum(jnp.sin(query))

        compiled = jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(vector, vector, vector, tokens)
        return compiled.compile().memory_analysis().temp_size_in_bytes

    assert temporaries(2048) < 2.5 * temporaries(1024)
