"""Muon against the method's definition in NumPy, and which weights are its own."""

import numpy as np
import pytest
from small_pretraining import small_pretraining
from tensorflow.python.framework import ops

from mlm.accelerators.lowering import train_step_of
from mlm.foundations.framework import tf, tf_keras
from mlm.training.in_tensorflow.optimizers import (
    Muon,
    build_optimizer,
    is_hidden_matrix,
    orthogonalised,
)
from mlm.training.in_tensorflow.train_step import replica_train_step

RATE, DECAY, MOMENTUM = 0.1, 0.5, 0.9


def newton_schulz(matrix: np.ndarray) -> np.ndarray:
    """Algorithm 1 of Jordan's page, in float64, five times."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = wide / np.linalg.norm(wide)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def test_a_matrix_is_made_orthogonal():
    matrices = np.random.default_rng(0).normal(size=(3, 8, 20)).astype(np.float32)
    found = orthogonalised(tf.constant(matrices)).numpy()
    np.testing.assert_allclose(found, [newton_schulz(m) for m in matrices], atol=1e-5)
    values = np.linalg.svd(found, compute_uv=False)
    assert values.min() > 0.6 and values.max() < 1.25


def test_a_matrix_of_zeros_stays_one():
    assert not orthogonalised(tf.zeros([2, 3, 4])).numpy().any()


def test_five_updates_are_those_of_the_definition():
    """Of two matrices of one shape, one lying, and a vector, which is AdamW's."""
    random = np.random.default_rng(1)
    shapes = {"a/kernel": (4, 6), "b/kernel": (6, 4), "c/kernel": (4, 6), "d/bias": (5,)}
    variables = [
        tf.Variable(random.normal(size=shape).astype(np.float32), name=name)
        for name, shape in shapes.items()
    ]
    expected = [v.numpy().astype(float) for v in variables[:3]]
    momentums = [np.zeros_like(w) for w in expected]
    optimizer = Muon(MOMENTUM, learning_rate=RATE, weight_decay=DECAY, jit_compile=False)
    plain = tf_keras.optimizers.AdamW(learning_rate=RATE, weight_decay=DECAY, jit_compile=False)
    vector = tf.Variable(variables[3])
    optimizer.build(variables)
    for _ in range(5):
        gradients = [random.normal(size=v.shape).astype(np.float32) for v in variables]
        optimizer.apply_gradients(zip(map(tf.constant, gradients), variables, strict=True))
        plain.apply_gradients([(tf.constant(gradients[3]), vector)])
        for i, gradient in enumerate(gradients[:3]):
            momentums[i] = MOMENTUM * momentums[i] + gradient
            step = newton_schulz(gradient + MOMENTUM * momentums[i])
            expected[i] *= 1 - RATE * DECAY
            expected[i] -= RATE * 0.2 * np.sqrt(6) * step
    for variable, weights in zip(variables, expected, strict=False):
        np.testing.assert_allclose(variable.numpy(), weights, atol=1e-5)
    np.testing.assert_allclose(variables[3].numpy(), vector.numpy(), atol=1e-5)


@pytest.mark.parametrize(
    "family", ["roberta-prelayernorm", "roberta", "bert", "distilbert", "electra"]
)
def test_the_hidden_matrices_of_a_model_are_six_in_a_layer_and_the_heads_one(family):
    from transformers import AutoConfig

    from mlm.training.in_tensorflow.model import build_model

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = AutoConfig.for_model(family, vocab_size=30, max_position_embeddings=18, **sizes)
    model = build_model(config, "standard", seed=0)
    hidden = [v.name for v in model.trainable_variables if is_hidden_matrix(v)]
    assert len(hidden) == 6 * 2 + 1
    assert len([name for name in hidden if "layer_._" in name]) == 6 * 2
    assert not [name for name in hidden if "embedding" in name]


def test_the_state_has_one_moment_of_a_hidden_matrix_and_two_of_the_rest(tmp_path):
    from mlm.training.in_tensorflow.model import build_model

    run = small_pretraining(tmp_path)
    settings = run.pretraining.optimizer
    model = build_model(run.model_config, "standard", run.seed)
    variables = model.trainable_variables
    optimizer = build_optimizer(settings, variables)
    numbers = sum(int(tf.size(v)) for v in optimizer.variables if v.dtype == tf.float32)
    expected = sum(int(tf.size(v)) * (1 if is_hidden_matrix(v) else 2) for v in variables)
    assert numbers == expected


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_an_optimizer_that_an_engine_does_not_have_is_an_error_and_not_adamw(engine, tmp_path):
    from mlm.training.in_jax.optimizers import first_moments

    optimizer = small_pretraining(tmp_path).pretraining.optimizer
    settings = optimizer.model_copy(update={"name": "lion"})
    begin = {
        "tensorflow": lambda: build_optimizer(settings, [tf.Variable([0.0], name="a/kernel")]),
        "jax": lambda: first_moments({"a": np.zeros(1)}, settings, hidden={}),
    }
    with pytest.raises(KeyError, match="lion"):
        begin[engine]()


def flops_of_products(step) -> int:
    """FLOPs of the matrix products of a TrainStep's graph, counted by TensorFlow."""
    from mlm.accelerators.xla_rules import operations

    function = tf.function(step.function, input_signature=[step.signature])
    products = [
        op
        for op in operations(function.get_concrete_function().graph)
        if op.type in ("MatMul", "BatchMatMulV2")
    ]
    return sum(ops.get_stats_for_node_def(op.graph, op.node_def, "flops").value for op in products)


def test_the_products_of_an_update_are_as_many_as_are_said(tmp_path):
    steps = [
        train_step_of(small_pretraining(tmp_path, optimizer=name)) for name in ("adamw", "muon")
    ]
    adamw, muon = map(flops_of_products, steps)
    assert muon - adamw == steps[1].muon_flops > 0
    assert steps[0].muon_flops is None


def test_one_execution_updates_every_weight(tmp_path):
    from mlm.samples.input_pipeline import training_batches
    from mlm.samples.stored_batches import BatchOrder
    from mlm.training.in_tensorflow.model import build_model

    run = small_pretraining(tmp_path)
    settings = run.pretraining.optimizer
    model = build_model(run.model_config, "standard", run.seed)
    optimizer = build_optimizer(settings, model.trainable_variables)
    before = [v.numpy() for v in model.trainable_variables]
    batch = next(
        iter(
            training_batches(
                run.train,
                run.plan,
                BatchOrder(seed=0, global_batch_size=8, shuffle_window=20, start_step=0, steps=1),
            )
        )
    )
    replica_train_step(model, optimizer, settings)(batch)
    moved = {
        v.name: float(np.abs(v.numpy() - w).max())
        for v, w in zip(model.trainable_variables, before, strict=True)
    }
    # The key's bias shifts all scores of a query alike: its gradient is 0 but for rounding.
    assert all(change > 0 for name, change in moved.items() if "key/bias" not in name), moved
