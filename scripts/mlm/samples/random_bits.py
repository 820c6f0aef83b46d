"""Random bits as a function of a key and a counter, in integers, the same in every framework.

Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
on arrays of NumPy or of JAX.
"""

from typing import Any

import numpy as np

#: Threefry's rotations and parity constant.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry(key: tuple, counter: tuple) -> tuple:
    """Two words of 32 random bits for each counter, pairs of uint32 like `key`."""
    k0, k1 = key
    schedule = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = counter[0] + k0, counter[1] + k1
    for block in range(5):
        for bits in _ROTATIONS[block % 2]:
            x0 = x0 + x1
            x1 = (x1 << bits | x1 >> (32 - bits)) ^ x0
        x0 = x0 + schedule[(block + 1) % 3]
        x1 = x1 + (schedule[(block + 2) % 3] + (block + 1))
    return x0, x1


def below(bits: Any, count: Any) -> Any:
    """Whole numbers from 0 to `count` - 1, a number or uint32: 32 random bits × count / 2^32
    (Lemire, "Fast random integer generation in an interval", 2019) in halves: JAX has no 64-bit
    integers by default."""
    low, high = count & 0xFFFF, count >> 16
    middle = (bits >> 16) * low + ((bits & 0xFFFF) * low >> 16)
    other = (bits & 0xFFFF) * high + (middle & 0xFFFF)
    return (bits >> 16) * high + (middle >> 16) + (other >> 16)


def fold_in(key: np.ndarray, number: np.ndarray) -> np.ndarray:
    """The keys that follow from `key`, uint32 [..., 2], and whole numbers, as in `jax.random`."""
    number = number.astype(np.uint32)
    return np.stack(threefry((key[..., 0], key[..., 1]), (np.zeros_like(number), number)), axis=-1)


def key_of(seed: int) -> np.ndarray:
    """The key, uint32 [1, 2], of a seed."""
    return np.array([[seed >> 32, seed & 0xFFFFFFFF]], np.uint32)
