"""The steps of a run in JAX: described in JSON, and compiled from that for any target.

The compiling process builds the very functions of `mlm.training.in_jax` and `mlm.evaluation.in_jax`
from the description over a mesh of the target's devices, without weights or data.
"""

import re
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from mlm.config.accelerator import Accelerator
from mlm.config.chips import is_gpu, number_of_chips
from mlm.config.evaluation import Evaluation
from mlm.config.pretraining import Optimizer
from mlm.evaluation.exported_model import masked_answers
from mlm.evaluation.scoring import evaluation_slots, rows_of_a_replica
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.network import Network, ops_of
from mlm.preflight.artefacts import EVALUATION, TRAINING, VALIDATION
from mlm.preflight.costs import product_flops
from mlm.samples.masking import VALIDATION_SEED, MaskingPlan
from mlm.training.in_jax.devices import AXIS, shardings
from mlm.training.in_jax.train_step import (
    has_cudnn_attention,
    on_mesh,
    reason_for_xla,
    token_type,
    train_step,
    validation_step,
)
from mlm.training.optimizers import first_moments, hidden_parts
from mlm.training.run import Run, TrainingPhase
from mlm.training.train_step import Computation, OfEachStep

_HOST = "calls Python on the host, which no device waits for"
#: What the text of a lowered step shows of faults that a compiler lets pass.
_FAULTS = {
    r"custom_call @\w*callback\w*|stablehlo\.send": _HOST,
    r"tensor<(?:\d+x)*f64>": "computes in float64, which is emulated or slow",
}


def described_steps(
    run: Run, accelerator: Accelerator, target: str, section: Evaluation
) -> dict[str, dict[str, Any]]:
    """The run's steps on `target`, those without gradients as well: "samples" are those of one
    replica. `run` is that of one replica, `section` is `evaluation`."""
    phases = [described_train_step(run, accelerator, target, phase) for phase in run.phases]
    names = [TRAINING, *(f"{TRAINING}, phase {n}" for n in range(2, len(phases) + 1))]
    training = phases[-1]
    slots = evaluation_slots(section.mlm_probability, run.validation_plan.sequence_length)
    plan, replicas = replace(run.validation_plan, fixed_slots=slots), number_of_chips(target)
    rows = rows_of_a_replica(section.batch_size, replicas, slots, plan.vocabulary_size)
    validation = {"plan": _as_json(run.validation_plan), "samples": run.validation_batch_size}
    evaluation = {"plan": _as_json(plan), "samples": rows, "precision": "float32"}
    return {
        **dict(zip(names, phases, strict=True)),
        VALIDATION: training | validation | {"step": VALIDATION},
        EVALUATION: training | evaluation | {"step": EVALUATION, "attention": "xla"},
    }


def described_train_step(
    run: Run, accelerator: Accelerator, target: str, phase: TrainingPhase | None = None
) -> dict[str, Any]:
    """The train step of `run`, that of one replica, in its first phase or another, on `target`. Its
    attention is by cuDNN only on cards that have it."""
    phase = phase or run.phases[0]
    kind, section = "gpu" if is_gpu(target) else "tpu", run.pretraining
    return {
        "step": TRAINING,
        "config": run.model_config.to_dict(),
        "plan": _as_json(phase.plan),
        "optimizer": section.optimizer.model_dump(),
        "attend": section.attend,
        "rematerialise": section.rematerialise,
        "precision": accelerator.precision_on(kind),
        "attention": "xla" if reason_for_xla(accelerator, kind, run) else "cudnn",
        "begins_document": run.model_config.cls_token_id,
        "samples": phase.batch_size,
        "seed": run.seed,
        "softmax_classes": section.softmax_classes,
    }


def _as_json(plan: MaskingPlan) -> dict[str, Any]:
    starts = plan.word_starts
    return asdict(plan) | {"word_starts": starts if starts is None else starts.tolist()}


def compile_description(
    devices: list, description: dict[str, Any], quick: bool
) -> tuple[Any, dict[str, float]]:
    """XLA's executable of the described step for all `devices`, and its count of the costs.

    FLOPs are those of its products, with all loops; bytes are XLA's count of the optimised program.
    Raises MlmError for a step that a device cannot run alone.
    """
    if quick:
        jax.config.update("jax_exec_time_optimization_effort", -1.0)
    on_tpu = devices[0].platform == "tpu"
    if description["attention"] == "cudnn" and not has_cudnn_attention(devices[0]):
        description = description | {"attention": "xla"}
    try:
        traced = traced_step(Mesh(np.array(devices), (AXIS,)), description)
        lowered = traced.lower()
    except RuntimeError as error:
        if "Unknown backend" in str(error):  # JAX looks for the GPU that would call
            raise MlmError(f"the step {_HOST}") from error
        raise
    for fault, problem in _FAULTS.items():
        if match := re.search(fault, lowered.as_text()):
            raise MlmError(f"the step {problem} ({match[0]})")
    executable: Any = lowered.compile().runtime_executable()
    if on_tpu:
        costs = executable.cost_analysis()
    else:  # whose compiler counts nothing
        from jaxlib.xla_client import _xla  # pyright: ignore[reportAttributeAccessIssue]

        (module,) = executable.hlo_modules()
        costs = _xla.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)
    return executable, costs | {"flops": product_flops(traced.jaxpr) / len(devices)}


def traced_step(mesh: Mesh, description: dict[str, Any]) -> Any:
    """The described step, traced by JAX for the devices of `mesh`."""
    architecture = Architecture.of(description["config"])
    starts = description["plan"]["word_starts"]
    starts = None if starts is None else np.array(starts)
    plan = MaskingPlan(**description["plan"] | {"word_starts": starts})
    whole, divided = shardings(mesh)
    parameters = {
        name: jax.ShapeDtypeStruct(shape, np.float32, sharding=whole)
        for name, shape in parameter_shapes(architecture).items()
    }

    def batch(**sizes: Any) -> dict:
        """Shapes of a batch of all devices; `sizes` has those of a sample and the type by name."""
        samples = description["samples"] * mesh.size
        return {
            name: jax.ShapeDtypeStruct((samples, *size), kind, sharding=divided)
            for name, (size, kind) in sizes.items()
        }

    if description["step"] == EVALUATION:
        row, slots = ((plan.sequence_length,), np.int32), ((plan.slots,), np.int32)
        masked = batch(input_ids=row, attention_mask=row, positions=slots, labels=slots)
        within = description["attend"] == "document"
        begins_document = description["begins_document"] if within else None
        answers = masked_answers(Network(architecture, ops_of("jax")), begins_document)
        return jax.jit(answers, out_shardings=divided).trace(parameters, masked)
    how = (description[name] for name in ("precision", "attention", "rematerialise"))
    network = Network(architecture, ops_of("jax"), *how)
    choices = (description[name] for name in ("attend", "begins_document", "softmax_classes"))
    computation = Computation(network, *choices)
    tokens, number = ((plan.sequence_length,), token_type(architecture.vocabulary)), ((), np.uint32)
    if description["step"] == VALIDATION:
        step = jax.jit(on_mesh(validation_step(computation, plan, VALIDATION_SEED), mesh))
        return step.trace(parameters, batch(tokens=tokens, index=number))
    optimizer = Optimizer.model_validate(description["optimizer"])
    state = {
        "parameters": parameters,
        "moments": first_moments(lambda x: x, parameters, optimizer, hidden_parts(architecture)),
        "step": jax.ShapeDtypeStruct((), np.int32),
    }
    parts = optimizer.gradient_accumulation_steps
    beside = OfEachStep(computation, description["seed"], mesh.size, parts)
    step = jax.jit(on_mesh(train_step(beside, plan, optimizer), mesh), donate_argnums=0)
    stored = batch(tokens=tokens, index=number, epoch=number) | _shaped(beside.arrays(0), divided)
    return step.trace(_shaped(state, whole), stored)


def _shaped(tree: Any, sharding: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)
