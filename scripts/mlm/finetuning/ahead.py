"""The very step of a fine-tuning without data or weights, to be compiled for any target.

Nothing is allocated: parameters and optimizer state are shapes (`jax.eval_shape`). On a mesh of
described devices (`jax.experimental.topologies`) the compiler of a TPU answers on a machine
that has none.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mlm.finetuning.flax_model import longest_sequence, sequence_configuration
from mlm.finetuning.step import (
    AdamW,
    Schedule,
    abstract_batch,
    compiled,
    first_state,
    optimizer_of,
    predict_step,
    train_step,
)


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
    model: str | Path, section: dict, labels: int, devices: int, bfloat16: bool
) -> AbstractStep:
    """The step that a fold of `section` (`finetune` in the configuration) would run.

    `model` is a directory with a config.json; no weights are read. `labels` is 1 for a
    regression, and `devices` the size of the mesh.
    """
    import jax
    import jax.numpy as jnp
    from transformers import FlaxAutoModelForSequenceClassification

    config = sequence_configuration(model, labels, section["dropout"])
    flax = FlaxAutoModelForSequenceClassification.from_config(
        config, dtype=jnp.bfloat16 if bfloat16 else jnp.float32, _do_init=False
    )
    schedule = Schedule(section["learning_rate"], section["epochs"], 1000, section["warmup_share"])
    optimizer = optimizer_of(AdamW(**section["optimizer"]), schedule)
    parameters = jax.eval_shape(partial(flax.init_weights, input_shape=(1, 2)), jax.random.key(0))
    parameters = jax.tree_util.tree_map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.float32), dict(parameters)
    )
    state = jax.eval_shape(partial(first_state, optimizer=optimizer, seed=0), parameters)
    length = min(section["max_length"], longest_sequence(config))
    return AbstractStep(
        step=train_step(flax, optimizer),
        predict=predict_step(flax),
        state=state,
        batch=abstract_batch(section["per_device_batch_size"] * devices, length),
        parameters=sum(leaf.size for leaf in jax.tree_util.tree_leaves(parameters)),
    )


@dataclass(frozen=True)
class CompiledAhead:
    """The compiler's figures for one step on one device of a target, in bytes."""

    devices: int
    parameters: int
    arguments: int
    temporaries: int
    peak: int
    flops: float


def compile_ahead(target: str, model: str | Path, section: dict, labels: int) -> CompiledAhead:
    """Compile the step for all devices of the TPU topology `target` ("v5e:2x2"), bfloat16.

    Needs libtpu and, before JAX is imported, the environment of
    `mlm.finetuning.jax_framework.prepare_ahead`.
    Raises jax.errors.JaxRuntimeError in the compiler's words where the step does not fit.
    """
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh

    found = topologies.get_topology_desc(platform="tpu", topology_name=target).devices
    ahead = abstract_step(model, section, labels, len(found), bfloat16=True)
    mesh = Mesh(np.array(found), ("data",))
    trained, _ = compiled(mesh, ahead.step, ahead.predict, ahead.state, ahead.batch)
    stats, costs = trained.memory_analysis(), trained.cost_analysis()
    return CompiledAhead(
        devices=len(found),
        parameters=ahead.parameters,
        arguments=stats.argument_size_in_bytes,
        temporaries=stats.temp_size_in_bytes,
        peak=stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
        + stats.generated_code_size_in_bytes,
        flops=float(costs["flops"]),
    )
