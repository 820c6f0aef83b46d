from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from both_frameworks import FRAMEWORKS, alike, computed, each_framework, with_gradients
from safetensors.numpy import load_file
from tiny_encoder import (
    LENGTH,
    MASK,
    PADDING,
    dropout_keys,
    hidden,
    network_of,
    tiny_batch,
    tiny_config,
    tiny_encoder,
)

from mlm.config.families import FAMILIES
from mlm.foundations.atomic import write_weights
from mlm.foundations.errors import ConfigError, MlmError
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.initialisation import initial_parameters
from mlm.model.model_files import fitting, read_tensors
from mlm.model.network import Network, ops_of

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
        ("modernbert", {"global_attn_every_n_layers": 0}, "global_attn_every_n_layers"),
        ("bert", {"vocab_size": None}, "vocab_size"),
        ("modernbert", {"hidden_size": 30, "num_attention_heads": 2}, "num_attention_heads"),
        ("albert", {"num_hidden_groups": 2}, "num_hidden_groups"),
        ("electra", {"embedding_size": 1.5}, "embedding_size"),
        ("esm", {"position_embedding_type": None}, "position_embedding_type"),
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
    one, other = (initial_parameters(architecture, seed) for seed in (0, 1))
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
    found = fitting(read_tensors(file), architecture, file)
    assert found.keys() == parameters.keys()
    assert all(np.array_equal(found[name], parameters[name]) for name in found)
    assert all(value.dtype == np.float32 for value in load_file(file).values())
    for changes in ({"num_hidden_layers": 3}, {"intermediate_size": 50}):
        with pytest.raises(MlmError, match=r"bert\.encoder\.layer\."):
            fitting(read_tensors(file), Architecture.of(tiny_config("bert", **changes)), file)


@families
def test_documents_of_one_row_are_as_in_rows_of_their_own(family):
    architecture, parameters = tiny_encoder(family)
    hidden_of = partial(hidden, parameters, architecture, framework="tensorflow")
    lengths, ids = (16, LENGTH - 16 - 3), tiny_batch(1)[0]
    ids[:, sum(lengths) :] = PADDING
    mask = (ids != PADDING).astype(np.int32)
    documents = np.repeat([[7, 3, 9]], (*lengths, 3), axis=1)
    packed = hidden_of(ids, mask, documents=documents)
    begin = 0
    for length in lengths:
        part = slice(begin, begin + length)
        alone = hidden_of(ids[:, part], mask[:, part])
        np.testing.assert_allclose(packed[:, part], alone, atol=1e-5)
        begin += length
    mixed = hidden_of(ids, mask)
    assert np.abs(packed - mixed)[mask == 1].max() > 1e-2


@families
def test_states_at_some_positions_are_those_of_the_whole_row(family):
    architecture, parameters = tiny_encoder(family)
    positions = np.array([[1, 5, 7], [2, 3, 9], [39, 1, 1]], np.int32)
    whole, some = (
        hidden(parameters, architecture, *tiny_batch(), framework="tensorflow", positions=asked)
        for asked in (None, positions)
    )
    np.testing.assert_allclose(some, whole[np.arange(3)[:, None], positions], atol=1e-5)


def loss_of(network: Network, **settings):
    """The function of weights that gives a loss of the real tokens, states and logits."""
    ops = network.ops
    ids, mask = map(ops.constant, tiny_batch())
    settings = jax.tree.map(ops.constant, settings)
    real = ops.cast(mask, "float32")[..., None]

    def loss(parameters):
        states = network.hidden_states(parameters, ids, mask, **settings)
        logits = network.logits(parameters, states)
        squares = ops.sum(ops.square(logits * real)) / (len(ids) * LENGTH)
        return squares, (states * real, logits * real)

    return loss


def in_documents() -> dict:
    ids, mask = tiny_batch()
    return {"documents": np.cumsum(ids % 9 == 0, axis=1, dtype=np.int32) * mask}


@pytest.mark.parametrize(
    "family, changes, settings, again",
    [
        ("bert", {"num_hidden_layers": 1}, {}, [False]),
        ("roberta-prelayernorm", {"num_hidden_layers": 1}, in_documents(), [False]),
        ("modernbert", {}, in_documents(), [False, True]),
    ],
)
def test_every_framework_has_the_same_states_logits_and_gradients(family, changes, settings, again):
    """With dropout, of the same bits, and `again` where activations are computed once more."""
    names = DROPOUTS.get(family, DROPOUTS["roberta"])
    architecture, parameters = tiny_encoder(family, **dict.fromkeys(names, 0.1), **changes)
    settings = settings | {"dropout_keys": dropout_keys(architecture, 0)}
    found = []
    for framework in FRAMEWORKS:
        for rematerialise in again:
            network = network_of(architecture, framework, rematerialise=rematerialise)
            found.append(with_gradients(framework, loss_of(network, **settings), parameters))
    (_, states), gradients = found[0]
    assert np.abs(states[0]).max() > 1
    for name, gradient in gradients.items():
        # The bias of keys moves all scores of a query alike.
        assert np.abs(gradient).max() > 1e-3 or name.endswith("key.bias"), name
    for other in found[1:]:
        alike(other, found[0], atol=1e-5, rtol=1e-4)


@each_framework
def test_activations_are_computed_again_where_that_is_asked(framework):
    architecture, parameters = tiny_encoder("bert", num_hidden_layers=1)
    parameters = jax.tree.map(ops_of(framework).constant, parameters)

    def softmaxes(rematerialise: bool) -> int:
        network = network_of(architecture, framework, rematerialise=rematerialise)
        step = partial(network.ops.value_and_grad, loss_of(network))
        if framework == "jax":
            return str(jax.make_jaxpr(step)(parameters)).count(" reduce_max")
        from mlm.foundations.tensorflow_setup import tf

        graph = tf.function(step, autograph=False).get_concrete_function(parameters).graph
        return [operation.type for operation in graph.get_operations()].count("Softmax")

    assert (softmaxes(False), softmaxes(True)) == (1, 2)


@both
@pytest.mark.parametrize("framework", ["tensorflow", pytest.param("jax", marks=pytest.mark.slow)])
def test_bfloat16_is_close_and_everything_else_stays_float32(family, framework):
    architecture, parameters = tiny_encoder(family)
    networks = (network_of(architecture, framework, dtype=d) for d in ("float32", "bfloat16"))
    exact, coarse = (with_gradients(framework, loss_of(n), parameters) for n in networks)
    assert {x.dtype for x in jax.tree.leaves(coarse)} == {np.dtype("float32")}
    (_, (one, _)), (_, (other, _)) = exact[0], coarse[0]
    apart = np.abs(one - other)[tiny_batch()[1] == 1]
    assert 1e-4 < apart.max() < 0.2
    assert apart.mean() < 0.02


@both
def test_every_dropout_of_the_configuration_drops(family):
    names = dict.fromkeys(DROPOUTS[family], 0.0)
    _, parameters = tiny_encoder(family, **names)
    ids, mask = tiny_batch()

    def dropped(seed, **changes):
        architecture = Architecture.of(tiny_config(family, **(names | changes)))
        return hidden(parameters, architecture, ids, mask, key=seed, framework="tensorflow")

    plain = dropped(None)
    np.testing.assert_allclose(plain, dropped(0), atol=1e-5)
    for name in names:
        np.testing.assert_allclose(plain, dropped(None, **{name: 0.5}), atol=1e-5)
        assert np.array_equal(dropped(0, **{name: 0.5}), dropped(0, **{name: 0.5}))
        assert np.abs(dropped(0, **{name: 0.5}) - dropped(1, **{name: 0.5})).max() > 1e-2, name


def test_masks_are_zeros_for_which_the_other_tokens_make_up():
    """ESM-2's token_dropout: a row without a mask is scaled by the share that its trainings saw."""
    architecture, parameters = tiny_encoder("esm", token_dropout=True)
    words = f"{architecture.names.words}.weight"
    plain = replace(architecture, zero_masks=False)
    ids, mask = tiny_batch()

    def scaled(share):
        given = parameters | {words: parameters[words] * share}
        return hidden(given, plain, ids, mask, framework="tensorflow")

    found = hidden(parameters, architecture, ids, mask, framework="tensorflow")
    np.testing.assert_allclose(found, scaled(0.88), atol=1e-5)
    ids[:, :10] = MASK
    parameters[words][MASK] = 0
    expected = scaled(0.88 * 40 / 30)[[0, 2]]
    parameters[words][MASK] = 7
    found = hidden(parameters, architecture, ids, mask, framework="tensorflow")
    np.testing.assert_allclose(found[[0, 2]], expected, atol=1e-5)


def ones_dropped(framework: str, shape, rate: float, key, lane: int = 0) -> np.ndarray:
    network = network_of(tiny_encoder("bert")[0], framework)
    how = {"rate": rate, "key": key, "lane": lane}
    return computed(framework, network.dropped, np.ones(shape, np.float32), **how)


KEYS = dropout_keys(tiny_encoder("bert")[0], 0).layers[0]


def test_every_framework_drops_the_same_and_parts_drop_what_the_whole_would():
    whole = [ones_dropped(framework, (6, 8, 5), 0.3, KEYS[0]) for framework in FRAMEWORKS]
    assert np.array_equal(*whole) and {*np.unique(whole[0])} == {0, np.float32(1 / 0.7)}
    for framework in FRAMEWORKS:
        parts = [ones_dropped(framework, (2, 8, 5), 0.3, KEYS[0], lane) for lane in range(3)]
        assert np.array_equal(np.concatenate(parts), whole[0])


def test_what_is_dropped_is_a_share_and_knows_neither_neighbours_nor_other_keys():
    shape, rate = (1000, 1024), 0.1
    first, second = ((ones_dropped("jax", shape, rate, k) == 0).astype(float) for k in KEYS[:2])
    deviation = np.sqrt(rate * (1 - rate) / first.size)
    others = [second, *(np.roll(first, 1, axis) for axis in (0, 1)), np.roll(first, 64, 1)]
    assert abs(first.mean() - rate) < 5 * deviation
    for other in others:
        assert abs((first * other).mean() - rate**2) < 5 * rate * np.sqrt(1 / first.size)
    # No place and no row is dropped more often than others.
    for axis, count in enumerate(shape):
        spread = np.sqrt(rate * (1 - rate) / (first.size / shape[1 - axis]))
        assert np.abs(first.mean(axis) - rate).max() < 6 * spread, count
