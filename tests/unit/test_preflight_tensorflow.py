"""TensorFlow's train step, compiled by XLA on the CPU before it goes to a TPU."""

import numpy as np
import pytest
from small_pretraining import small_pretraining

from mlm.foundations.tensorflow_setup import tf
from mlm.preflight.judging import xla_refusal, xla_refusal_of
from mlm.training.devices import Devices

BATCH = {"x": tf.TensorSpec((8, 16), tf.float32)}


def total(batch):
    return tf.reduce_sum(batch["x"])


def shape_by_data(batch):
    return tf.range(tf.cast(total(batch), tf.int32))


def python_on_the_host(batch):
    return tf.ensure_shape(tf.py_function(np.sum, [batch["x"]], tf.float32), [])


@pytest.mark.parametrize(
    ("fault", "words"),
    [(shape_by_data, "must be a compile-time constant"), (python_on_the_host, "EagerPyFunc")],
)
def test_a_planted_fault_is_refused_in_xlas_words(fault, words):
    assert words in xla_refusal(fault, BATCH)
    assert xla_refusal(total, BATCH) is None


@pytest.mark.parametrize(
    "optimizer, accumulated", [("adamw", 1), pytest.param("muon", 2, marks=pytest.mark.slow)]
)
def test_the_step_that_trains_compiles(tmp_path, optimizer, accumulated):
    devices = Devices("tensorflow", tf.distribute.get_strategy(), "cpu", "float32", 1, {"lanes": 1})
    run = small_pretraining(tmp_path, optimizer, accumulated)
    assert xla_refusal_of(run, devices) is None
