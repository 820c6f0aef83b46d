"""AdamW and Muon in Keras, whose own Muon is for variables of Keras 3, and makes one matrix
orthogonal at a time."""

import math

from mlm.config.optimizers import Optimizer, updates_of
from mlm.foundations.tensorflow_setup import tf, tf_keras
from mlm.training import muon
from mlm.training.learning_rate import decays, learning_rate


class AdamW(tf_keras.optimizers.AdamW):
    """Keras' AdamW (Loshchilov and Hutter, 2019), up to rounding, by TensorFlow's kernel for Adam:
    one pass over each weight, not a dozen."""

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


def is_hidden_matrix(variable) -> bool:
    """Whether Muon updates the variable: a dense layer's matrix, if it widens no embeddings."""
    *_, layer, own = ("/" + variable.name.lower().split(":")[0]).split("/")
    return own == "kernel" and len(variable.shape) == 2 and "embedding" not in layer


def orthogonalised(matrices: tf.Tensor) -> tf.Tensor:
    """Roughly the nearest semi-orthogonal matrix to each of [matrices, rows, columns], rows <=
    columns, by Newton-Schulz iterations."""
    a, b, c = muon.COEFFICIENTS
    norms = tf.sqrt(tf.reduce_sum(tf.square(matrices), axis=[1, 2], keepdims=True))
    x = tf.cast(matrices / (norms + 1e-7), tf_keras.mixed_precision.global_policy().compute_dtype)
    for _ in range(muon.ITERATIONS):
        gram = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * gram + c * tf.matmul(gram, gram), x)
    return tf.cast(x, matrices.dtype)


class Muon(AdamW):
    """AdamW in all but the hidden matrices, which have one moment; those of one shape, or of that
    transposed, are made orthogonal together."""

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
        scale = muon.RMS * math.sqrt(max(variables[0].shape))
        steps = tf.cast(self.learning_rate, ahead[0].dtype) * scale
        updates = tf.unstack(steps * orthogonalised(tf.stack(ahead)))
        for variable, update, turn in zip(variables, updates, tall, strict=True):
            variable.assign_sub(tf.transpose(update) if turn else update)


class LearningRate(tf_keras.optimizers.schedules.LearningRateSchedule):
    """`learning_rate` as Keras asks for it."""

    def __init__(self, settings: Optimizer):
        self.settings = settings

    def __call__(self, step):
        return learning_rate(self.settings, tf.cast(step, tf.float32), tf)


def clipped(gradients: list, largest: float | None) -> list:
    """`gradients` scaled down to the global norm `largest` if theirs is larger."""
    return gradients if largest is None else tf.clip_by_global_norm(gradients, largest)[0]


#: By name; each takes those keys of the section that `mlm.config.optimizers` names.
OPTIMIZERS = {
    "adamw": AdamW,
    "muon": Muon,
}


def build_optimizer(settings: Optimizer, variables) -> tf_keras.optimizers.Optimizer:
    """The optimizer that `settings` name, with its slots made; the train step clips, after the sum
    over the replicas. MlmError if there is none of that name."""
    kind = updates_of(OPTIMIZERS, settings.name, "tensorflow")
    optimizer = kind(
        learning_rate=LearningRate(settings),
        weight_decay=settings.weight_decay,
        jit_compile=False,
        **{key: getattr(settings, key) for key in settings.kind.keys},
    )
    kept = [v for v in variables if not settings.weight_decay or not decays(v.shape)]
    optimizer.exclude_from_weight_decay(var_list=kept)
    optimizer.build(variables)
    return optimizer
