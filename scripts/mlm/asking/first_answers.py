"""The logits of a model at some places of one sample: of an engine, or of an exported model.

As an evaluation computes them: in JAX in float32, in TensorFlow in the precision of the devices.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlm.training.engine import Devices, Engine
from mlm.training.run import Run

_ASKED = ("input_ids", "attention_mask", "positions")
#: (input_ids [sequence], attention_mask [sequence], places [asked]) -> [asked, vocabulary] float32
Logits = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def logits_of_engine(engine: Engine, run: Run, devices: Devices) -> Logits:
    """Those of the model that `engine` holds; it must make no step before they are asked for."""
    if devices.framework == "tensorflow":
        return _in_tensorflow(engine.model, devices.strategy)
    from mlm.model.architecture import Architecture

    architecture = Architecture.of(run.model_config.to_dict())
    return _in_jax(architecture, engine.exported().weights, run)


def logits_of_exported(directory: str | Path, run: Run, devices: Devices) -> Logits:
    """Those of the model that `run` was exported to; MlmError where it cannot be read."""
    if devices.framework == "tensorflow":
        from mlm.evaluation.exported_model import load_model

        with devices.strategy.scope():
            return _in_tensorflow(load_model(directory), devices.strategy)
    from mlm.model.weights import read_exported

    return _in_jax(*read_exported(directory), run)


def _in_tensorflow(model, strategy) -> Logits:
    from mlm.foundations.framework import tf
    from mlm.training.in_tensorflow.prediction import masked_logits, traceable

    def step(*tensors):
        return masked_logits(model, dict(zip(_ASKED, tensors, strict=True)), training=False)

    step = traceable(model, step)
    compiled = tf.function(lambda *batch: strategy.run(step, batch))

    def logits(*arrays):
        # Every replica is given the same.
        found = compiled(*(tf.constant(array[np.newaxis], tf.int32) for array in arrays))
        return strategy.experimental_local_results(found)[0].numpy()[0]

    return logits


def _in_jax(architecture, weights: dict[str, np.ndarray], run: Run) -> Logits:
    import jax

    from mlm.evaluation.in_jax import masked_positions

    begins_document = (
        run.model_config.cls_token_id if run.pretraining.attend == "document" else None
    )
    step = jax.jit(masked_positions(architecture, begins_document))

    def logits(*arrays):
        batch = {
            name: array[np.newaxis].astype(np.int32)
            for name, array in zip(_ASKED, arrays, strict=True)
        }
        return np.asarray(step(weights, batch))[0]

    return logits
