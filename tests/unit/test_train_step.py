"""The parts of a step against TensorFlow's own."""

import numpy as np
import pytest

from mlm.foundations.framework import tf, tf_keras
from mlm.pretraining.adamw import AdamW
from mlm.pretraining.train_step import cross_entropy, masked_cross_entropy


@pytest.mark.parametrize("scale", [0.0, 1.0, 1000.0])
def test_the_cross_entropy_and_its_gradient_are_those_of_tensorflow(scale):
    random = np.random.default_rng(0)
    logits = tf.constant(random.normal(size=(50, 30)) * scale, tf.float32)
    labels = tf.constant(random.integers(30, size=50), tf.int32)
    weights = tf.constant(random.random(50), tf.float32)
    found, expected = [], []
    for values, losses_of in (
        (found, lambda: cross_entropy(logits, labels)[0]),
        (expected, lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)),
    ):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = losses_of()
            total = tf.reduce_sum(losses * weights)
        values += [losses.numpy(), tape.gradient(total, logits).numpy()]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-6)


def test_correct_predictions_are_those_with_the_first_largest_logit():
    logits = tf.constant([[[0.0, 2.0, 1.0], [1.0, 1.0, 0.0]], [[3.0, 0.0, 0.0], [0.0, 0.0, 9.0]]])
    batch = {
        "labels": tf.constant([[1, 1], [0, 2]]),
        "weights": tf.constant([[0.5, 0.25], [0.25, 0.0]]),
    }
    assert float(masked_cross_entropy(logits, batch)[1]) == 0.75


def test_the_loss_of_logits_that_are_not_finite_is_not_finite():
    logits = tf.constant([[0.0, float("nan"), 1.0], [float("inf"), 0.0, 1.0]])
    assert not np.isfinite(cross_entropy(logits, tf.constant([0, 1]))[0].numpy()).any()


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
