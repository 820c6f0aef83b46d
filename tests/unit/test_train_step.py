import numpy as np
import pytest

from mlm.config.families import TENSORFLOW_FAMILIES
from mlm.foundations.tensorflow_setup import tf, tf_keras
from mlm.model.sampled_softmax import strata
from mlm.training.in_tensorflow.model import build_model, gelu
from mlm.training.in_tensorflow.optimizers import AdamW
from mlm.training.in_tensorflow.train_step import projected_cross_entropy, replica_validation_step


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


@pytest.mark.slow
@pytest.mark.parametrize("family", TENSORFLOW_FAMILIES)
def test_a_step_of_every_family_can_be_traced(family):
    from transformers import AutoConfig

    sizes = dict.fromkeys(("hidden_size", "dim", "embedding_size"), 32)
    sizes |= dict.fromkeys(("num_hidden_layers", "n_layers"), 1)
    sizes |= dict.fromkeys(("num_attention_heads", "n_heads"), 2)
    sizes |= {"vocab_size": 50, "max_position_embeddings": 40}
    known = AutoConfig.for_model(family).to_dict()
    fields = {name: size for name, size in sizes.items() if name in known}
    model = build_model(AutoConfig.for_model(family, pad_token_id=1, **fields), "standard", 0)
    ids, slots = tf.TensorSpec((8, 16), tf.int32), tf.TensorSpec((8, 3), tf.int32)
    batch = {"input_ids": ids, "attention_mask": ids, "positions": slots, "labels": slots}
    batch |= {"weights": tf.TensorSpec((8, 3), tf.float32)}
    step = tf.function(replica_validation_step(model), input_signature=[batch])
    assert [output.shape for output in step.get_concrete_function().outputs] == [(), (), ()]
