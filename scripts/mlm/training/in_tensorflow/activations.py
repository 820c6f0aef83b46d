"""The Gaussian error linear unit, in half as many passes as TensorFlow's own."""

import math

from mlm.foundations.framework import tf


@tf.custom_gradient
def gelu(x: tf.Tensor):
    """x · Φ(x), Φ the normal distribution's (Hendrycks and Gimpel, 2016, arXiv 1606.08415).

    Computed in float32 and given in the precision of `x`. TensorFlow asks for the complementary
    error function, which in bfloat16 takes its CPU kernel seven times as long as the error function
    in float32.
    """
    wide = tf.cast(x, tf.float32)
    share = 0.5 + 0.5 * tf.math.erf(math.sqrt(0.5) * wide)

    def gradient(of_y):
        density = tf.exp(-0.5 * tf.square(wide)) * (1 / math.sqrt(2 * math.pi))
        return of_y * tf.cast(share + wide * density, of_y.dtype)

    return tf.cast(wide * share, x.dtype), gradient
