"""The model that trains, as transformers' TensorFlow class."""

import math

import numpy as np

from mlm.foundations.errors import MlmError, first_line
from mlm.foundations.tensorflow_setup import in_one_pass, make_deterministic, tf
from mlm.model.initialisation import neighbour_heads


def _share(x: tf.Tensor) -> tf.Tensor:
    return 0.5 + 0.5 * tf.math.erf(math.sqrt(0.5) * x)


@in_one_pass
def _value(x: tf.Tensor) -> tf.Tensor:
    wide = tf.cast(x, tf.float32)
    return tf.cast(wide * _share(wide), x.dtype)


@in_one_pass
def _gradient(x: tf.Tensor, of_y: tf.Tensor) -> tf.Tensor:
    wide = tf.cast(x, tf.float32)
    density = tf.exp(-0.5 * tf.square(wide)) * (1 / math.sqrt(2 * math.pi))
    return of_y * tf.cast(_share(wide) + wide * density, of_y.dtype)


@tf.custom_gradient
def gelu(x: tf.Tensor):
    """x · Φ(x) (Hendrycks and Gimpel, 2016) in one pass, by the error function in float32, which a
    CPU computes seven times as fast as in bfloat16."""
    return _value(x), lambda of_y: _gradient(x, of_y)


def build_model(config, attention: str, seed: int):
    """A TF masked language model with initial weights that depend on `seed` alone; `attention` is
    that of section `model.initialisation`. MlmError if transformers refuses the fields."""
    from transformers import TFAutoModelForMaskedLM
    from transformers.activations_tf import ACT2FN

    make_deterministic(seed)
    # Layers look their activation up here when they are made.
    ACT2FN["gelu"] = gelu
    try:
        model = TFAutoModelForMaskedLM.from_config(config)
        model(model.dummy_inputs)
    except (ValueError, TypeError, KeyError, tf.errors.InvalidArgumentError) as error:
        raise MlmError(
            f"model.config: transformers cannot build a {config.model_type} from these fields: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error
    if attention == "neighbour_heads":
        neighbour_heads(KerasWeights(model), config, seed)
    return model


class KerasWeights:
    """`StartingWeights` of a TensorFlow model."""

    def __init__(self, model):
        self._model = model
        self._encoder = getattr(model, model.base_model_prefix)

    def _variable(self, name: str) -> tf.Variable:
        if name == "words":
            return self._model.get_input_embeddings().weight
        return self._encoder.embeddings.position_embeddings

    def table(self, name: str) -> np.ndarray:
        return self._variable(name).numpy()

    def set_table(self, name: str, table: np.ndarray) -> None:
        self._variable(name).assign(table.astype(np.float32))

    def set_attention(self, layer: int, **kernels: np.ndarray) -> None:
        if self._model.config.model_type == "distilbert":
            own = self._encoder.transformer.layer[layer].attention
            layers = {"query": own.q_lin, "key": own.k_lin, "value": own.v_lin}
            layers["output"] = own.out_lin
        else:
            own = self._encoder.encoder.layer[layer].attention
            layers = {name: getattr(own.self_attention, name) for name in ("query", "key", "value")}
            layers["output"] = own.dense_output.dense
        for name, kernel in kernels.items():
            layers[name].kernel.assign(kernel.astype(np.float32))

    def set_output_bias(self, bias: np.ndarray) -> None:
        biases = self._model.get_bias()
        # ALBERT has two, of which its logits take this one.
        biases.get("decoder_bias", biases.get("bias")).assign(bias)


def number_of_parameters(model) -> int:
    """Trainable numbers in the model."""
    return int(sum(tf.size(v) for v in model.trainable_variables))


def pytorch_weights(model) -> dict[str, np.ndarray]:
    """The model's weights by PyTorch name (transformers' own table), in PyTorch's layout, float32;
    MlmError if two have one name."""
    from transformers.modeling_tf_pytorch_utils import apply_transpose

    weights = {}
    for variable in model.weights:
        name, transpose = _in_pytorch(variable)
        if name in weights:
            raise MlmError(
                f"model: two weights of {type(model).__name__} have the one name {name} in the "
                "exported file, so that one would be lost. Choose another model.family"
            )
        value = np.asarray(variable.numpy(), dtype=np.float32)
        value = np.asarray(apply_transpose(transpose, value, match_shape=None))
        weights[name] = np.ascontiguousarray(value)
    return dict(sorted(weights.items()))


def set_weights(model, weights: dict[str, np.ndarray]) -> None:
    """Set the model's weights to those of `pytorch_weights` of a model of the same sizes."""
    from transformers.modeling_tf_pytorch_utils import apply_transpose

    for variable in model.weights:
        name, transpose = _in_pytorch(variable)
        variable.assign(apply_transpose(transpose, weights[name], match_shape=variable.shape))


def vocabulary_weights(model) -> tuple[str, list[str]]:
    """PyTorch's names of the word embeddings, and of the biases of the output."""
    words = _in_pytorch(model.get_input_embeddings().weight)[0]
    return words, [_in_pytorch(bias)[0] for bias in (model.get_bias() or {}).values()]


def _in_pytorch(variable):
    """The name of a variable in PyTorch, and how its value is turned for it."""
    from transformers.modeling_tf_pytorch_utils import convert_tf_weight_name_to_pt_weight_name

    return convert_tf_weight_name_to_pt_weight_name(variable.name, tf_weight_shape=variable.shape)
