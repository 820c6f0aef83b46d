"""The very step of a fine-tuning without data or weights, to be compiled for any target.

Nothing is allocated: parameters and optimizer state are shapes (`jax.eval_shape`). On a mesh of
described devices (`jax.experimental.topologies`) the compiler of a TPU answers on a machine
that has none.
"""

from functools import partial

from mlm.accelerators.compiler import REFUSED, Compilation, answer, ask, compile_here
from mlm.config.finetune import Finetune
from mlm.finetuning.fold_engine import adamw, first_state, lowered_fold
from mlm.foundations.errors import MlmError
from mlm.training.in_jax.framework import AXIS, prepare_jax


def compile_ahead(
    target: str, config: dict, section: dict, labels: int, bfloat16: bool, quick: bool = False
) -> Compilation:
    """What the compiler says of a fold's step on all devices of the TPU topology `target`.

    `config` is the content of a config.json, `section` that of `finetune`, `labels` 1 for a
    regression, and `quick` as in `compile_for`. A process of its own compiles, and needs libtpu.
    The figures are those of one device.
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
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh

    from mlm.finetuning.sequence_model import sequence_model

    asked = Finetune.of_param(section)
    dtype = jnp.bfloat16 if bfloat16 else jnp.float32
    model, optimizer = sequence_model(config, labels, asked.dropout, dtype), adamw(asked, 1000)
    parameters = jax.eval_shape(partial(model.random_parameters, seed=0))
    state = jax.eval_shape(partial(first_state, optimizer=optimizer, seed=0), parameters)
    size = asked.per_device_batch_size * len(devices), model.length(asked.max_length)
    trained, _ = lowered_fold(Mesh(np.array(devices), (AXIS,)), model, optimizer, state, *size)
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
