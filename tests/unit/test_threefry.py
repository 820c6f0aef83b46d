import numpy as np
import pytest

from mlm.samples.masking import below, threefry


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
    words = threefry(*([np.array([n], np.uint32) for n in pair] for pair in (key, counter)))
    assert tuple(int(w[0]) for w in words) == answer


@pytest.mark.parametrize("count", [1, 3, 495, 8_000, 2**16, 250_002, 2**31 - 1])
def test_a_number_below_a_count_is_the_upper_half_of_a_product_of_64_bits(count):
    bits = np.random.default_rng(0).integers(0, 2**32, 1000, np.uint32)
    bits[:2] = 0, 2**32 - 1
    expected = bits.astype(np.uint64) * count >> 32
    np.testing.assert_array_equal(below(bits, count), expected)
