import numpy as np
import pytest

from mlm.batches.keyed_random import threefry, uniform
from mlm.foundations.framework import tf


# The known answers that come with Random123 (Salmon et al., 2011), threefry2x32, 20 rounds.
@pytest.mark.parametrize(
    "counter, key, answer",
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_answers(counter, key, answer):
    words = threefry(
        tuple(tf.constant(k, tf.uint32) for k in key),
        tuple(tf.constant([c], tf.uint32) for c in counter),
    )
    assert tuple(int(w[0]) for w in words) == answer


def test_a_uniform_number_is_exact_and_below_one():
    bits = tf.constant([0, 0xFF, 0x100, 0x80000000, 0xFFFFFFFF], tf.uint32)
    np.testing.assert_array_equal(
        uniform(bits).numpy(), np.float32([0, 0, 2.0**-24, 0.5, 1 - 2.0**-24])
    )


def test_uniform_numbers_are_spread_evenly():
    counters = (tf.cast(tf.range(40_000), tf.uint32), tf.constant(3, tf.uint32))
    numbers = uniform(threefry((tf.constant(7, tf.uint32), tf.constant(1, tf.uint32)), counters)[0])
    counts = np.histogram(numbers, bins=10, range=(0, 1))[0]
    # Six standard deviations of a binomial count.
    assert np.abs(counts - 4000).max() < 6 * np.sqrt(40_000 * 0.1 * 0.9)
