"""Random bits as a function of a key and a counter: nothing is streamed, all is keyed.

Threefry-2x32 with 20 rounds, after Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
as easy as 1, 2, 3" (SC 2011). A value depends on its own key and counter alone, so batch
size, order, replicas and restarts change no bit of it.

All is integer arithmetic on arrays of NumPy or of JAX: the same bits on every device. The
generators of TensorFlow and of JAX take one key a call, and TensorFlow's draws other bits under XLA
than without.
"""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry(key: tuple, counter: tuple) -> tuple:
    """Two words of 32 random bits for each counter.

    `key` and `counter` are pairs of uint32 arrays, of one dimension or more, that broadcast
    against each other; the two results are uint32 of the common shape.
    """
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


def below(bits, count: int):
    """Whole numbers from 0 to `count` - 1 of 32 random bits each: bits × count / 2^32.

    No division, and a bias below count / 2^32 (Lemire, "Fast random integer generation in an
    interval", 2019). In halves of 16 bits, since JAX has no integers of 64 bits by default.
    """
    low, high = count & 0xFFFF, count >> 16
    middle = (bits >> 16) * low + ((bits & 0xFFFF) * low >> 16)
    other = (bits & 0xFFFF) * high + (middle & 0xFFFF)
    return (bits >> 16) * high + (middle >> 16) + (other >> 16)
