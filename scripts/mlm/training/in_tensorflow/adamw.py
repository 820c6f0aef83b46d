"""Keras' AdamW (Loshchilov and Hutter, 2019), each weight updated by one kernel."""

from mlm.foundations.framework import tf, tf_keras


class AdamW(tf_keras.optimizers.AdamW):
    """The same state and, but for rounding, the same updates, in one pass over each weight.

    Keras makes an update of a dozen operations, each a pass; TensorFlow's kernel for Adam has the
    same formula.
    """

    def update_step(self, gradient, variable):
        index = self._index_dict[self._var_key(variable)]
        step = tf.cast(self.iterations + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].handle,
            v=self._velocities[index].handle,
            beta1_power=tf.pow(tf.cast(self.beta_1, variable.dtype), step),
            beta2_power=tf.pow(tf.cast(self.beta_2, variable.dtype), step),
            lr=tf.cast(self.learning_rate, variable.dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )
