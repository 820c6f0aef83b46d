"""Muon: momentum, made orthogonal, for the hidden matrices; AdamW for all other weights.

Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024
(https://kellerjordan.github.io/posts/muon/), with the scale and the decay of Liu et al., "Muon is
Scalable for LLM Training", 2025 (arXiv 2502.16982), under which it shares AdamW's learning rate.

Own code, since the maintained ones do not fit: optax's is for JAX, and Keras' is for the variables
of Keras 3, chooses by paths that transformers' models do not have, and makes one matrix orthogonal
at a time.
"""

import math

from mlm.foundations.framework import tf, tf_keras
from mlm.training.in_tensorflow.adamw import AdamW
from mlm.training.optimisation import MUON


def is_hidden_matrix(variable) -> bool:
    """Whether Muon updates the variable: the matrix of a dense layer, but for embeddings.

    Those are the projections of attention, both of the feed-forward layer, and the prediction
    head's transform. A dense layer that only widens embeddings is part of them.
    """
    *_, layer, own = ("/" + variable.name.lower().split(":")[0]).split("/")
    return own == "kernel" and len(variable.shape) == 2 and "embedding" not in layer


def orthogonalised(matrices: tf.Tensor) -> tf.Tensor:
    """The nearest semi-orthogonal matrix to each of [matrices, rows, columns], roughly.

    Newton-Schulz iterations, of rows <= columns. Jordan's polynomial does not converge: it leaves
    singular values between 0.7 and 1.2, which trains as well and takes fewer iterations.
    """
    a, b, c = MUON.coefficients
    norms = tf.sqrt(tf.reduce_sum(tf.square(matrices), axis=[1, 2], keepdims=True))
    x = tf.cast(matrices / (norms + 1e-7), tf_keras.mixed_precision.global_policy().compute_dtype)
    for _ in range(MUON.iterations):
        gram = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * gram + c * tf.matmul(gram, gram), x)
    return tf.cast(x, matrices.dtype)


class Muon(AdamW):
    """AdamW in all but the hidden matrices, which have one moment, `momentum` its decay rate.

    Matrices of one shape, or of that shape transposed, are made orthogonal together.
    """

    def __init__(self, momentum: float, **adamw):
        super().__init__(name="Muon", **adamw)
        self.momentum = momentum

    def build(self, var_list):
        if getattr(self, "_built", False):
            return
        hidden = [v for v in var_list if is_hidden_matrix(v)]
        super().build([v for v in var_list if not is_hidden_matrix(v)])
        self._hidden_momentums = [
            self.add_variable_from_reference(model_variable=v, variable_name="momentum")
            for v in hidden
        ]
        self._hidden_index = {self._var_key(v): i for i, v in enumerate(hidden)}

    def _distributed_apply_gradients_fn(self, distribution, grads_and_vars, **kwargs):
        stacks, others = {}, []
        for gradient, variable in grads_and_vars:
            index = self._hidden_index.get(self._var_key(variable))
            if index is None:
                others.append((gradient, variable))
            else:
                found = (variable, self._hidden_momentums[index], gradient)
                stacks.setdefault(tuple(sorted(variable.shape)), []).append(found)
        for stack in stacks.values():
            # All of a stack's variables are arguments, so that each replica gets its own of them.
            distribution.extended.update(
                stack[0][0], self._update_stack, args=tuple(zip(*stack, strict=True)), group=False
            )
        return super()._distributed_apply_gradients_fn(distribution, others, **kwargs)

    def _update_stack(self, _first, variables, momentums, gradients):
        tall = [v.shape[0] > v.shape[1] for v in variables]
        ahead = []
        for momentum, gradient, turn in zip(momentums, gradients, tall, strict=True):
            value = momentum.assign(self.momentum * momentum + gradient, read_value=True)
            # Nesterov's: where the momentum would be after this gradient once more.
            nesterov = gradient + self.momentum * value
            ahead.append(tf.transpose(nesterov) if turn else nesterov)
        scale = MUON.update_rms * math.sqrt(max(variables[0].shape))
        steps = tf.cast(self.learning_rate, ahead[0].dtype) * scale
        updates = tf.unstack(steps * orthogonalised(tf.stack(ahead)))
        for variable, update, turn in zip(variables, updates, tall, strict=True):
            variable.assign_sub(tf.transpose(update) if turn else update)

    def get_config(self):
        return super().get_config() | {"momentum": self.momentum}
