from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from tiny_encoder import (
    LENGTH,
    PADDING,
    QUICKLY,
    beginning,
    hidden,
    tiny_batch,
    tiny_config,
    tiny_encoder,
)

from mlm.foundations.atomic import write_weights
from mlm.foundations.errors import ConfigError, MlmError
from mlm.model import network
from mlm.model.architecture import FAMILIES, Architecture, parameter_shapes
from mlm.model.network import hidden_states, masked_logits
from mlm.model.weights import read_parameters

quick = partial(jax.jit, compiler_options=QUICKLY)
#: Compiling takes seconds a network: by default those that differ most.
QUICK = ("bert", "modernbert")
slow = [pytest.param(f, marks=[] if f in QUICK else pytest.mark.slow) for f in FAMILIES]
families = pytest.mark.parametrize("family", slow)
both = pytest.mark.parametrize("family", [slow[list(FAMILIES).index("roberta")], "modernbert"])
DROPOUTS = {
    "roberta": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "modernbert": ("embedding_dropout", "attention_dropout", "mlp_dropout"),
}


@pytest.mark.parametrize(
    "family, changes, name",
    [
        ("electra", {}, "model_type"),
        ("modernbert", {"global_attn_every_n_layers": 0}, "global_attn_every_n_layers"),
        ("bert", {"vocab_size": None}, "vocab_size"),
        ("modernbert", {"hidden_size": 30, "num_attention_heads": 2}, "num_attention_heads"),
    ],
)
def test_what_is_not_built_here_is_refused(family, changes, name):
    with pytest.raises(ConfigError) as caught:
        Architecture.of(tiny_config(family, **changes))
    (problem,) = caught.value.problems
    assert problem.startswith(f"{name}: ")


@pytest.mark.parametrize("family", QUICK)
def test_weights_begin_as_the_configuration_says(family):
    architecture = Architecture.of(tiny_config(family, initializer_range=0.1))
    one, other = (beginning(architecture, jax.random.key(i)) for i in (0, 1))
    assert {k: v.shape for k, v in one.items()} == parameter_shapes(architecture)
    words = f"{architecture.names.words}.weight"
    assert np.std(one[words]) == pytest.approx(0.1, rel=0.1)
    assert not np.array_equal(one[words], other[words])
    vectors = {name: v for name, v in one.items() if v.ndim == 1}
    assert all((v == (0 if name.endswith("bias") else 1)).all() for name, v in vectors.items())
    added = np.std(one[f"{architecture.names.layer}0.{architecture.names.output}.weight"])
    assert added == pytest.approx(0.1 / (2 if family == "modernbert" else 1), rel=0.1)


def test_weights_come_back_from_their_file(tmp_path):
    architecture, parameters = tiny_encoder("bert")
    file = tmp_path / "model.safetensors"
    # What PyTorch saves of models with more heads is left there.
    write_weights(parameters | {"bert.pooler.dense.bias": np.zeros(32)}, file)
    found = read_parameters(file, architecture)
    assert found.keys() == parameters.keys()
    assert all(np.array_equal(found[name], parameters[name]) for name in found)
    assert all(value.dtype == np.float32 for value in load_file(file).values())
    for changes in ({"num_hidden_layers": 3}, {"intermediate_size": 50}):
        with pytest.raises(MlmError, match=r"bert\.encoder\.layer\."):
            read_parameters(file, Architecture.of(tiny_config("bert", **changes)))


@families
def test_documents_of_one_row_are_as_in_rows_of_their_own(family):
    architecture, parameters = tiny_encoder(family)
    lengths, ids = (16, LENGTH - 16 - 3), tiny_batch(1)[0]
    ids[:, sum(lengths) :] = PADDING
    mask = (ids != PADDING).astype(np.int32)
    documents = np.repeat([[7, 3, 9]], (*lengths, 3), axis=1)
    packed = hidden(parameters, architecture, ids, mask, documents=documents)
    begin = 0
    for length in lengths:
        part = slice(begin, begin + length)
        alone = hidden(parameters, architecture, ids[:, part], mask[:, part])
        np.testing.assert_allclose(packed[:, part], alone, atol=1e-5)
        begin += length
    mixed = hidden(parameters, architecture, ids, mask)
    assert np.abs(packed - mixed)[mask == 1].max() > 1e-2


def loss_of(architecture, **settings):
    ids, mask = tiny_batch()

    def loss(parameters):
        found = hidden_states(parameters, architecture, ids, mask, **settings)
        return jnp.mean(jnp.square(masked_logits(parameters, architecture, found)))

    return loss


@both
def test_gradients_are_the_same_where_activations_are_computed_again(family):
    architecture, parameters = tiny_encoder(family)
    # With dropout, which must be drawn the same the second time.
    settings = {"dropout_key": jax.random.key(3)}
    kept = quick(jax.grad(loss_of(architecture, **settings)))(parameters)
    function = jax.grad(loss_of(architecture, **settings, rematerialise=True))
    again = quick(function)(parameters)
    for name, gradient in kept.items():
        np.testing.assert_allclose(gradient, again[name], atol=1e-6, err_msg=name)
        # The bias of keys moves all scores of a query alike.
        assert np.abs(gradient).max() > 1e-9 or name.endswith("key.bias"), name
    assert "remat" in str(jax.make_jaxpr(function)(parameters))


@both
def test_bfloat16_is_close_and_everything_else_stays_float32(family):
    architecture, parameters = tiny_encoder(family)
    ids, mask = tiny_batch()
    exact, coarse = (
        hidden(parameters, architecture, ids, mask, dtype=dtype)
        for dtype in (jnp.float32, jnp.bfloat16)
    )
    assert exact.dtype == coarse.dtype == jnp.float32
    apart = np.abs(exact - coarse)[mask == 1]
    assert 1e-4 < apart.max() < 0.2
    assert apart.mean() < 0.02
    logits = masked_logits(parameters, architecture, coarse, dtype=jnp.bfloat16)
    assert logits.dtype == jnp.float32
    gradient = jax.eval_shape(jax.grad(loss_of(architecture, dtype=jnp.bfloat16)), parameters)
    assert {value.dtype for value in gradient.values()} == {jnp.dtype("float32")}


@both
def test_every_dropout_of_the_configuration_drops(family):
    names = dict.fromkeys(DROPOUTS[family], 0.0)
    _, parameters = tiny_encoder(family, **names)
    ids, mask = tiny_batch()

    def dropped(key, **changes):
        architecture = Architecture.of(tiny_config(family, **(names | changes)))
        key = None if key is None else jax.random.key(key)
        return hidden(parameters, architecture, ids, mask, dropout_key=key)

    plain = dropped(None)
    np.testing.assert_allclose(plain, dropped(0), atol=1e-5)
    for name in names:
        np.testing.assert_allclose(plain, dropped(None, **{name: 0.5}), atol=1e-5)
        assert np.array_equal(dropped(0, **{name: 0.5}), dropped(0, **{name: 0.5}))
        assert np.abs(dropped(0, **{name: 0.5}) - dropped(1, **{name: 0.5})).max() > 1e-2, name


def test_a_row_longer_than_the_positions_is_refused():
    architecture, parameters = tiny_encoder("roberta", max_position_embeddings=LENGTH + 1)
    with pytest.raises(MlmError, match="max_position_embeddings"):
        hidden(parameters, architecture, *tiny_batch())


def test_what_is_dropped_is_a_share_and_knows_neither_neighbours_nor_other_keys():
    shape, rate = (1000, 1024), 0.1

    def zeros(key):
        return np.asarray(network.dropped(jnp.ones(shape), rate, key) == 0).astype(float)

    first, second = (zeros(key) for key in jax.random.split(jax.random.key(0)))
    deviation = np.sqrt(rate * (1 - rate) / first.size)
    others = [second, *(np.roll(first, 1, axis) for axis in (0, 1)), np.roll(first, 64, 1)]
    assert abs(first.mean() - rate) < 5 * deviation
    for other in others:
        assert abs((first * other).mean() - rate**2) < 5 * rate * np.sqrt(1 / first.size)
    # No place and no row is dropped more often than others.
    for axis, count in enumerate(shape):
        spread = np.sqrt(rate * (1 - rate) / (first.size / shape[1 - axis]))
        assert np.abs(first.mean(axis) - rate).max() < 6 * spread, count
