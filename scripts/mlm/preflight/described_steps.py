"""The steps of a run in JAX: described in JSON, and compiled from that for any target.

The compiling process builds the very functions of `mlm.training.in_jax` and `mlm.evaluation`
from the description over a mesh of the target's devices, without weights or data.
"""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from mlm.config.accelerator import Accelerator
from mlm.config.chips import is_gpu, number_of_chips
from mlm.config.evaluation import Evaluation
from mlm.config.fields import SPLITS
from mlm.config.pretraining import Recipe
from mlm.config.tokenizer import SpecialTokens
from mlm.evaluation.exported_model import masked_answers
from mlm.evaluation.scoring import evaluation_slots, rows_of_a_replica
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.network import Network, ops_of
from mlm.preflight.artefacts import EVALUATION, TRAINING, VALIDATION
from mlm.preflight.costs import product_flops
from mlm.samples.manifests import Manifest, Shard
from mlm.samples.masking import VALIDATION_SEED, MaskingPlan
from mlm.tokenizer.encoding import write_tokenizer
from mlm.training.devices import has_cudnn_attention, reason_for_xla
from mlm.training.in_jax.devices import AXIS, shardings
from mlm.training.in_jax.train_step import on_mesh, train_step, validation_step
from mlm.training.optimizers import first_moments, hidden_parts
from mlm.training.run import Run, RunFiles, TrainingPhase
from mlm.training.train_step import Computation, OfEachStep

_HOST = "calls Python on the host, which no device waits for"
#: What the text of a lowered step shows of faults that a compiler lets pass.
_FAULTS = {
    r"custom_call @\w*callback\w*|stablehlo\.send": _HOST,
    r"tensor<(?:\d+x)*f64>": "computes in float64, which is emulated or slow",
}
#: Samples of a split that is not made yet: more than a step on any target takes.
_MANY = 2**31


def unmade_data(
    vocabulary: int, sequence_length: int, directory: Path
) -> tuple[RunFiles, dict[str, Manifest]]:
    """Return files and manifests for the steps of a run whose corpus was not read: a tokenizer of
    so many ids in `directory`, and splits that fill every batch."""
    special = SpecialTokens().model_dump()
    pieces = [*special.values(), *(f"word{i}" for i in range(len(special), vocabulary))]
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    model = {"type": "WordPiece", "unk_token": special["unk"], "continuing_subword_prefix": "##"}
    model |= {"max_input_chars_per_word": 100, "vocab": {p: i for i, p in enumerate(pieces)}}
    tokenizer = {
        "version": "1.0",
        "model": model,
        "added_tokens": [
            {"id": i, "content": p, "special": True} | flags for i, p in enumerate(special.values())
        ],
    }
    write_tokenizer(directory, tokenizer, special, None)
    shard = Shard("", "", _MANY, 0, 0, 0, "", ())
    sizes = {"sequence_length": sequence_length, "documents": 0, "special_literals": 0}
    digests = {"tokenizer_sha256": "", "corpus_sha256": ""}
    manifests = {s: Manifest.of([shard], split=s, **sizes, **digests) for s in SPLITS[:2]}
    return RunFiles(str(directory / "tokenizer.json"), dict.fromkeys(manifests, "")), manifests


def described_steps(
    run: Run, accelerator: Accelerator, target: str, section: Evaluation
) -> dict[str, dict[str, Any]]:
    """Return the run's steps on `target`, those without gradients as well: "samples" are those of
    one replica. `run` is that of one replica, `section` is `evaluation`."""
    phases = [described_train_step(run, accelerator, target, phase) for phase in run.phases]
    names = [TRAINING, *(f"{TRAINING}, phase {n}" for n in range(2, len(phases) + 1))]
    slots = evaluation_slots(section.mlm_probability, run.validation_plan.sequence_length)
    plan, replicas = replace(run.validation_plan, fixed_slots=slots), number_of_chips(target)
    rows = rows_of_a_replica(section.batch_size, replicas, slots, plan.vocabulary_size)
    validation = {"plan": _as_json(run.validation_plan), "samples": run.validation_batch_size}
    evaluation = {"plan": _as_json(plan), "samples": rows, "precision": "float32"}
    return {
        **dict(zip(names, phases, strict=True)),
        VALIDATION: phases[-1] | validation | {"step": VALIDATION},
        EVALUATION: phases[-1] | evaluation | {"step": EVALUATION, "attention": "xla"},
    }


def described_train_step(
    run: Run, accelerator: Accelerator, target: str, phase: TrainingPhase | None = None
) -> dict[str, Any]:
    """Return the train step of `run`, that of one replica, in its first phase or another, on
    `target`. Its attention is by cuDNN only on cards that have it."""
    phase, kind = phase or run.phases[0], "gpu" if is_gpu(target) else "tpu"
    how = accelerator, kind, run.architecture, run.plan.sequence_length
    return {
        "step": TRAINING,
        "config": run.model_config.to_dict(),
        "plan": _as_json(phase.plan),
        "recipe": run.pretraining.model_dump(mode="json"),
        "precision": accelerator.precision_on(kind),
        "attention": "xla" if reason_for_xla(*how) else "cudnn",
        "samples": phase.batch_size,
    }


def _as_json(plan: MaskingPlan) -> dict[str, Any]:
    starts = plan.word_starts
    return asdict(plan) | {"word_starts": starts if starts is None else starts.tolist()}


def compile_description(
    devices: list, description: dict[str, Any], quick: bool
) -> tuple[jax.stages.Compiled, float]:
    """Return the described step compiled for all `devices`, and the FLOPs of its products on one,
    with all loops. Raises MlmError for a step that a device cannot run alone."""
    if quick:
        jax.config.update("jax_exec_time_optimization_effort", -1.0)
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
    return lowered.compile(), product_flops(traced.jaxpr) / len(devices)


def traced_step(mesh: Mesh, description: dict[str, Any]) -> Any:
    """Return the described step, traced by JAX for the devices of `mesh`."""
    config, recipe = description["config"], Recipe.model_validate(description["recipe"])
    architecture = Architecture.of(config)
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

    row, slots = ((plan.sequence_length,), np.int32), ((plan.slots,), np.int32)
    if description["step"] == EVALUATION:
        masked = batch(input_ids=row, attention_mask=row, positions=slots, labels=slots)
        begins_document = config["cls_token_id"] if recipe.attend == "document" else None
        answers = masked_answers(Network(architecture, ops_of("jax")), begins_document)
        return jax.jit(answers, out_shardings=divided).trace(parameters, masked)
    how = description["precision"], description["attention"], recipe.rematerialise
    network = Network(architecture, ops_of("jax"), *how)
    choices = recipe.attend, config["cls_token_id"], recipe.softmax_classes
    computation = Computation(network, *choices)
    number = ((), np.uint32)
    if description["step"] == VALIDATION:
        step = jax.jit(on_mesh(validation_step(computation, plan, VALIDATION_SEED), mesh))
        return step.trace(parameters, batch(input_ids=row, attention_mask=row, index=number))
    optimizer = recipe.optimizer
    state = {
        "parameters": parameters,
        "moments": first_moments(lambda x: x, parameters, optimizer, hidden_parts(architecture)),
        "step": jax.ShapeDtypeStruct((), np.int32),
    }
    parts = optimizer.gradient_accumulation_steps
    beside = OfEachStep(computation, recipe.seed or 0, mesh.size, parts)
    step = jax.jit(on_mesh(train_step(beside, plan, optimizer), mesh), donate_argnums=0)
    stored = batch(input_ids=row, attention_mask=row, index=number, epoch=number)
    stored |= _shaped(beside.arrays(0), divided)
    return step.trace(_shaped(state, whole), stored)


def _shaped(tree: Any, sharding: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)
