import numpy as np

from mlm.config.families import JAX_FAMILIES, TENSORFLOW_FAMILIES
from mlm.foundations.tensorflow_setup import tf, tf_keras
from mlm.model.architecture import FAMILIES
from mlm.model.sampled_softmax import strata
from mlm.training.in_tensorflow import prediction
from mlm.training.in_tensorflow.model import gelu
from mlm.training.in_tensorflow.optimizers import AdamW
from mlm.training.in_tensorflow.train_step import projected_cross_entropy


def test_the_loss_of_logits_that_are_not_finite_is_not_finite():
    logits = tf.constant([[0.0, np.nan, 1.0], [np.inf, 0.0, 1.0]])
    given = tf.eye(3), tf.zeros(3), tf.constant([0, 1]), *strata(3, None)
    losses, _ = projected_cross_entropy(logits, *given)
    assert not np.isfinite(losses.numpy()).any()


def test_gelu_and_its_gradient_are_those_of_tensorflow():
    x = tf.linspace(-6.0, 6.0, 1001)
    found = []
    for function in (gelu, tf.nn.gelu):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        found.append([y, tape.gradient(y, x)])
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_adamw_in_one_kernel_makes_the_updates_of_keras():
    random = np.random.default_rng(0)
    start = random.normal(size=(7, 5)).astype(np.float32)
    weights = []
    for kind in (AdamW, tf_keras.optimizers.AdamW):
        gradients = np.random.default_rng(1)
        weight = tf.Variable(start)
        optimizer = kind(0.1, weight_decay=0.1, beta_2=0.98, epsilon=1e-6, jit_compile=False)
        for _ in range(5):
            gradient = gradients.normal(size=(7, 5)).astype(np.float32)
            optimizer.apply_gradients([(tf.constant(gradient), weight)])
        weights.append(weight.numpy())
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-5)
    assert np.abs(weights[0] - start).max() > 0.3


def test_every_family_that_is_trained_has_a_network_and_a_head():
    assert prediction._HEADS.keys() == {*TENSORFLOW_FAMILIES}
    assert FAMILIES.keys() == {*JAX_FAMILIES}
