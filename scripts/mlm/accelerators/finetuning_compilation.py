"""The very step of a fine-tuning without data or weights, to be compiled for any target.

Nothing is allocated: parameters and optimizer state are shapes (`jax.eval_shape`). On a mesh of
described devices (`jax.experimental.topologies`) the compiler of a TPU answers on a machine
that has none.
"""

from dataclasses import dataclass
from functools import partial

from mlm.accelerators.compiler import REFUSED, Compilation, answer, ask, compile_here
from mlm.config.finetune import Finetune
from mlm.finetuning.fold_engine import (
    abstract_batch,
    first_state,
    lowered,
    optimizer_of,
    predict_step,
    train_step,
)
from mlm.foundations.errors import MlmError
from mlm.training.in_jax.framework import AXIS, prepare_jax


@dataclass(frozen=True)
class AbstractStep:
    """`step` (state, batch) and `predict` (params, batch), not jitted, and what they take.

    `state` and `batch` hold jax.ShapeDtypeStruct; the batch is that of the whole mesh.
    """

    step: object
    predict: object
    state: dict
    batch: dict
    parameters: int


def abstract_step(
    config: dict, section: dict, labels: int, devices: int, bfloat16: bool
) -> AbstractStep:
    """The step that a fold of `section` (`finetune` in the configuration) would run.

    `config` is the content of a config.json; no weights are read. `labels` is 1 for a
    regression, and `devices` the size of the mesh. Raises MlmError as `sequence_model` does.
    """
    import jax
    import jax.numpy as jnp

    from mlm.finetuning.sequence_model import sequence_model

    dtype = jnp.bfloat16 if bfloat16 else jnp.float32
    model = sequence_model(config, labels, section["dropout"], dtype)
    optimizer = optimizer_of(Finetune.of_param(section), 1000 * section["epochs"])
    parameters = jax.eval_shape(partial(model.random_parameters, seed=0))
    state = jax.eval_shape(partial(first_state, optimizer=optimizer, seed=0), parameters)
    return AbstractStep(
        step=train_step(model, optimizer),
        predict=predict_step(model),
        state=state,
        batch=abstract_batch(
            section["per_device_batch_size"] * devices, model.length(section["max_length"])
        ),
        parameters=sum(leaf.size for leaf in jax.tree_util.tree_leaves(parameters)),
    )


def compile_ahead(
    target: str, config: dict, section: dict, labels: int, bfloat16: bool, quick: bool = False
) -> Compilation:
    """What the compiler says of the step on all devices of the TPU topology `target`.

    `config`, `section`, `labels` and `bfloat16` as in `abstract_step`, and `quick` as in
    `compile_for`. A process of its own compiles, and needs libtpu. The figures are those of one
    device.
    """
    request = {
        "target": target,
        "config": config,
        "section": section,
        "labels": labels,
        "bfloat16": bfloat16,
        "quick": quick,
    }
    return ask("mlm.accelerators.finetuning_compilation", [request])[0]


def _compiled(devices, config: dict, section: dict, labels: int, bfloat16: bool, quick: bool):
    import jax
    import numpy as np
    from jax.sharding import Mesh

    ahead = abstract_step(config, section, labels, len(devices), bfloat16)
    mesh = Mesh(np.array(devices), (AXIS,))
    trained, _ = lowered(mesh, ahead.step, ahead.predict, ahead.state, ahead.batch)
    if quick:
        jax.config.update("jax_exec_time_optimization_effort", -1.0)
    return trained.compile().runtime_executable()


def _answer(request: dict) -> Compilation:
    target = request.pop("target")
    try:
        return compile_here(target, lambda devices: _compiled(devices, **request))
    except MlmError as error:
        return Compilation(REFUSED, str(error))


if __name__ == "__main__":
    prepare_jax("cpu", 1, None)
    answer(_answer)
