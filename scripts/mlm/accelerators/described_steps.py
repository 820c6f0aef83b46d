"""The steps of a run whose engine is JAX: described in JSON, and compiled from that for any target.

Whoever compiles builds the very functions of `mlm.training.in_jax`, `mlm.evaluation.in_jax` and
`mlm.finetuning` from the description over a mesh of the target's devices, without weights or data.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mlm.accelerators.artefacts import EVALUATION, FINETUNING, TRAINING, VALIDATION
from mlm.accelerators.product_flops import product_flops
from mlm.accelerators.step_sizes import evaluation_plan, forward_rows
from mlm.config.evaluation import Evaluation
from mlm.config.finetune import Finetune
from mlm.config.optimizers import Optimizer
from mlm.evaluation.in_jax import masked_answers
from mlm.finetuning.fold_engine import adamw, first_state, traced_fold
from mlm.finetuning.sequence_model import sequence_model
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture
from mlm.model.weights import initial_parameters
from mlm.samples.masking import VALIDATION_SEED, MaskingPlan
from mlm.training.in_jax.attention import has_cudnn_attention
from mlm.training.in_jax.devices import AXIS, shardings
from mlm.training.in_jax.optimizers import first_moments, hidden_parts
from mlm.training.in_jax.train_step import (
    Computation,
    on_mesh,
    token_type,
    train_step,
    validation_step,
)
from mlm.training.run import Run

_HOST = "calls Python on the host, which no device waits for"
#: What the text of a lowered step shows of faults that a compiler lets pass.
_FAULTS = {
    r"custom_call @\w*callback\w*|stablehlo\.send": _HOST,
    r"tensor<(?:\d+x)*f64>": "computes in float64, which is emulated or slow",
}
#: Attention on a GPU by cuDNN; a card that has none has no step.
ONLY_CUDNN = "only cudnn"
#: Of TRAINING, of VALIDATION, and of the evaluation by the number of replicas; empty if a step
#: could not be lowered.
Programs = dict[str | int, bytes]


def described_steps(
    run: Run,
    precision: str,
    attention_on_gpu: str,
    section: Evaluation | None = None,
    replicas: Sequence[int] = (),
) -> Programs:
    """The run's train step and, with section `evaluation`, its steps without gradients.
    `attention_on_gpu` is "xla", "cudnn" (XLA's on cards that have none), or ONLY_CUDNN."""
    steps = {TRAINING: (TRAINING, run.plan, precision, run.batch_size)}
    if section:
        size, plan = run.validation_batch_size, evaluation_plan(run, section)
        steps[VALIDATION] = VALIDATION, run.validation_plan, precision, size
        for count, rows in forward_rows(run, section, replicas).evaluation.items():
            steps[count] = EVALUATION, plan, "float32", rows
    programs, pretraining = {}, run.pretraining
    for key, (step, plan, shown_precision, samples) in steps.items():
        description = description_of(
            step,
            run.model_config.to_dict(),
            plan,
            pretraining.optimizer,
            attend=pretraining.attend,
            rematerialise=pretraining.rematerialise,
            precision=shown_precision,
            attention_on_gpu=attention_on_gpu if step != EVALUATION else "xla",
            begins_document=run.model_config.cls_token_id,
            samples=samples,
            seed=run.seed,
            softmax_classes=pretraining.softmax_classes,
        )
        programs[key] = (json.dumps(description, sort_keys=True) + "\n").encode()
    return programs


def description_of(
    step: str, config: dict, plan: MaskingPlan, optimizer: Optimizer, **fields
) -> dict:
    """The description of a step; `fields` are its others, by their names there."""
    starts = plan.word_starts
    starts = None if starts is None else [bool(s) for s in starts]
    return fields | {
        "step": step,
        "config": config,
        "plan": asdict(plan) | {"word_starts": starts},
        "optimizer": optimizer.model_dump(),
    }


def compile_description(devices, description: dict, quick: bool):
    """XLA's executable of the described step for all `devices`, and its count of the costs.

    FLOPs are those of its products, with all loops; bytes are XLA's count of the optimised program.
    Raises MlmError for a step that a device cannot run alone.
    """
    if quick:
        jax.config.update("jax_exec_time_optimization_effort", -1.0)
    on_tpu = devices[0].platform == "tpu"
    asked = "xla" if on_tpu else description.get("attention_on_gpu", "xla")
    by_cudnn = asked != "xla" and has_cudnn_attention(devices[0])
    if asked == ONLY_CUDNN and not by_cudnn:
        raise MlmError("accelerator.attention: cudnn needs an Ampere card or a newer one")
    description["attention"] = "cudnn" if by_cudnn else "xla"
    try:
        traced = traced_step(Mesh(np.array(devices), (AXIS,)), description)
        lowered = traced.lower()
    except RuntimeError as error:
        if "Unknown backend" in str(error):  # JAX looks for the GPU that would call
            raise MlmError(f"the step {_HOST}") from error
        raise
    for fault, said in _FAULTS.items():
        if found := re.search(fault, lowered.as_text()):
            raise MlmError(f"the step {said} ({found[0]})")
    executable = lowered.compile().runtime_executable()
    if on_tpu:
        costs = executable.cost_analysis()
    else:  # whose compiler counts nothing
        from jaxlib.xla_client import _xla

        (module,) = executable.hlo_modules()
        costs = _xla.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)
    return executable, costs | {"flops": product_flops(traced.jaxpr) / len(devices)}


def traced_step(mesh, description: dict):
    """The described step, traced by JAX for the devices of `mesh`.

    Raises MlmError for a model that cannot be fine-tuned.
    """
    if description["step"] == FINETUNING:
        return _finetuning(mesh, description)
    architecture = Architecture.of(description["config"])
    starts = description["plan"].pop("word_starts")
    starts = None if starts is None else np.array(starts)
    plan = MaskingPlan(**description["plan"], word_starts=starts)
    lower = {TRAINING: _training, VALIDATION: _validation, EVALUATION: _evaluation}
    return lower[description["step"]](mesh, architecture, plan, description)


def _parameters(architecture: Architecture) -> dict:
    return jax.eval_shape(partial(initial_parameters, architecture), jax.random.key(0))


def _shaped(tree, sharding):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)


def _batch(mesh, description: dict, **sizes):
    """Shapes of a batch of all devices; `sizes` has those of a sample and the type by name."""
    samples, divided = description["samples"] * mesh.size, shardings(mesh)[1]
    return {
        name: jax.ShapeDtypeStruct((samples, *size), kind, sharding=divided)
        for name, (size, kind) in sizes.items()
    }


def _stored(mesh, architecture: Architecture, plan: MaskingPlan, description: dict, **more) -> dict:
    tokens = (plan.sequence_length,), token_type(architecture.vocabulary)
    return _batch(mesh, description, tokens=tokens, index=((), np.uint32), **more)


def _computation(architecture: Architecture, description: dict) -> Computation:
    names = "attend", "rematerialise", "precision", "begins_document"
    settings = (description[name] for name in names)
    attention, classes = description.get("attention", "xla"), description["softmax_classes"]
    return Computation(architecture, *settings, attention, classes)


def _training(mesh, architecture: Architecture, plan: MaskingPlan, description: dict):
    settings, parameters = Optimizer.of_param(description["optimizer"]), _parameters(architecture)
    first = partial(first_moments, settings=settings, hidden=hidden_parts(architecture))
    state = {
        "parameters": parameters,
        "moments": jax.eval_shape(first, parameters),
        "step": jax.ShapeDtypeStruct((), np.int32),
    }
    computation = _computation(architecture, description)
    step = train_step(computation, plan, settings, description["seed"])
    step = jax.jit(on_mesh(step, mesh), donate_argnums=0)
    state = _shaped(state, shardings(mesh)[0])
    batch = _stored(mesh, architecture, plan, description, epoch=((), np.uint32))
    return step.trace(state, batch)


def _validation(mesh, architecture: Architecture, plan: MaskingPlan, description: dict):
    step = validation_step(_computation(architecture, description), plan, VALIDATION_SEED)
    parameters = _shaped(_parameters(architecture), shardings(mesh)[0])
    batch = _stored(mesh, architecture, plan, description)
    return jax.jit(on_mesh(step, mesh)).trace(parameters, batch)


def _evaluation(mesh, architecture: Architecture, plan: MaskingPlan, description: dict):
    whole, divided = shardings(mesh)
    row, slots = ((plan.sequence_length,), np.int32), ((plan.slots,), np.int32)
    asked = {"input_ids": row, "attention_mask": row, "positions": slots, "labels": slots}
    within = description["attend"] == "document"
    answers = masked_answers(architecture, description["begins_document"] if within else None)
    step = jax.jit(answers, out_shardings=divided)
    parameters = _shaped(_parameters(architecture), whole)
    return step.trace(parameters, _batch(mesh, description, **asked))


def _finetuning(mesh, description: dict):
    """The step of a fold. Passages are padded to one length and the last batch is filled up, so
    that no shape changes."""
    section = Finetune.of_param(description["section"])
    precision = jnp.dtype(description["precision"])
    outputs = description["outputs"]
    classes = [f"class {i}" for i in range(outputs)] if outputs > 1 else []
    model = sequence_model(description["config"], classes, section.dropout, precision)
    optimizer = adamw(section, 1000)
    parameters = jax.eval_shape(partial(model.parameters, 0))
    state = jax.eval_shape(partial(first_state, optimizer=optimizer, seed=0), parameters)
    size = section.per_device_batch_size * mesh.size, model.length(section.max_length)
    return traced_fold(mesh, model, optimizer, state, *size)[0]
