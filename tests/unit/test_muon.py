import numpy as np
import pytest
from transformers import AutoConfig

from mlm.config.optimizers import OptimizerSection
from mlm.foundations.tensorflow_setup import tf, tf_keras
from mlm.training.in_tensorflow.model import build_model
from mlm.training.in_tensorflow.optimizers import Muon, build_optimizer, is_hidden_matrix

RATE, DECAY, MOMENTUM = 0.1, 0.5, 0.9


def newton_schulz(matrix: np.ndarray) -> np.ndarray:
    """Algorithm 1 of Jordan's page, in float64, five times."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = wide / np.linalg.norm(wide)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def test_five_updates_are_those_of_the_definition():
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
    "family",
    [
        "roberta-prelayernorm",
        *(pytest.param(f, marks=pytest.mark.slow) for f in ("bert", "distilbert", "electra")),
    ],
)
def test_of_a_models_matrices_all_decay_and_the_hidden_ones_are_muons(family):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = AutoConfig.for_model(family, vocab_size=30, max_position_embeddings=18, **sizes)
    variables = build_model(config, "standard", seed=0).trainable_variables
    hidden = [v.name for v in variables if is_hidden_matrix(v)]
    assert len(hidden) == 6 * 2 + 1
    assert len([name for name in hidden if "layer_._" in name]) == 6 * 2
    assert not [name for name in hidden if "embedding" in name]
    for variable in variables:
        variable.assign(tf.ones_like(variable))
    section = OptimizerSection(name="adamw", weight_decay=0.5, warmup_ratio=0.0, learning_rate=0.1)
    optimizer = build_optimizer(section.scheduled(100), variables)
    optimizer.apply_gradients([(tf.zeros_like(variable), variable) for variable in variables])
    for variable in variables:
        expected = 0.95 if len(variable.shape) > 1 else 1.0
        assert float(tf.reduce_max(variable)) == pytest.approx(expected), variable.name
