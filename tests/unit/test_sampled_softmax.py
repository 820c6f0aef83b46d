"""The loss over drawn classes, in both engines."""

import numpy as np
import pytest
from test_masked_loss import gradients, sample

from mlm.foundations.tensorflow_setup import tf
from mlm.model.masked_loss import masked_cross_entropy
from mlm.model.sampled_softmax import strata
from mlm.training.in_tensorflow.train_step import projected_cross_entropy

VOCABULARY = 30


def in_jax(given, drawn):
    def function(*arguments):
        return masked_cross_entropy(*arguments, drawn=drawn)

    (of_states, of_table, of_bias, _), (loss, right) = gradients(function, given)
    return loss, right, of_states / 3, of_table / 3, of_bias / 3


def in_tensorflow(given, drawn):
    *heads, labels, weights = map(tf.constant, given)
    with tf.GradientTape() as tape:
        tape.watch(heads)
        losses, right = projected_cross_entropy(*heads, labels, *drawn)
        loss = tf.reduce_sum(losses * weights)
    return loss, tf.reduce_sum(weights[right]), *tape.gradient(loss, heads)


def written_out(given, drawn):
    """Loss and gradients by the probabilities of every sample, in float64."""
    states, table, bias, labels, weights = (np.asarray(x, np.float64) for x in given)
    loss, right = 0.0, 0.0
    found = [np.zeros_like(x) for x in (states, table, bias)]
    for n, label in enumerate(labels.astype(int)):
        terms = {int(c): k for c, k in zip(*drawn, strict=True) if c != label} | {label: 1.0}
        ids, counts = np.array(list(terms)), np.array(list(terms.values()))
        logits = table[ids] @ states[n] + bias[ids]
        shares = counts * np.exp(logits)
        shares /= shares.sum()
        loss -= weights[n] * np.log(shares[-1])
        right += weights[n] * (logits[-1] >= logits.max())
        shares[-1] -= 1
        shares *= weights[n]
        found[0][n] = shares @ table[ids]
        found[1][ids] += shares[:, None] * states[n]
        found[2][ids] += shares
    return loss, right, *found


@pytest.mark.parametrize(("classes", "scale"), [(12, 1.0), (None, 9.0)])
@pytest.mark.parametrize("engine", [in_jax, in_tensorflow])
def test_loss_and_gradients_are_those_of_the_drawn_classes_and_the_label(engine, classes, scale):
    given = sample(50, scale)
    starts, sizes = strata(VOCABULARY, classes)
    drawn = (starts + sizes // 2).astype(np.int32), sizes
    # Labels among the drawn and beside them.
    assert classes is None or 0 < np.isin(given[3], drawn[0]).sum() < 50
    expected = written_out(given, drawn)
    for ours, right in zip(engine(given, drawn), expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("vocabulary, classes", [(30, 12), (8_000, 2_000), (250_000, 2_000)])
def test_strata_hold_every_id_once_and_are_no_more_than_asked(vocabulary, classes):
    starts, sizes = strata(vocabulary, classes)
    assert 0.8 * classes < len(starts) <= classes
    assert starts[0] == 0 and (np.diff(starts) == sizes[:-1]).all()
    assert starts[-1] + sizes[-1] == vocabulary
    # Frequent ids alone, and no stratum larger than twice the one before.
    assert (sizes[: classes // 5] == 1).all()
    assert (sizes[1:-1] <= 2 * sizes[:-2]).all()


def test_a_vocabulary_no_larger_than_asked_is_summed_whole():
    for classes in (None, VOCABULARY, 64):
        starts, sizes = strata(VOCABULARY, classes)
        assert (starts == np.arange(VOCABULARY)).all() and (sizes == 1).all()
