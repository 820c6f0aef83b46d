"""The train steps of a run in JAX: described in JSON, and compiled from that for any target.

The compiling process builds the very function of `mlm.training.in_jax` from the description over a
mesh of the target's devices, without weights or data.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxprs_in_params
from jax.sharding import Mesh

from mlm.config.accelerator import Accelerator
from mlm.config.chips import is_gpu
from mlm.config.fields import SPLITS
from mlm.config.pretraining import Recipe
from mlm.config.special_tokens import SpecialTokens
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.model.network import Network, ops_of
from mlm.samples.manifests import Manifest, Shard
from mlm.samples.masking import MaskingPlan
from mlm.tokenizer.encoding import write_tokenizer
from mlm.training.attention_kernel import has_cudnn_attention, reason_for_xla
from mlm.training.in_jax.devices import AXIS, shardings
from mlm.training.in_jax.engine import masked_train_step, on_mesh
from mlm.training.length_and_phases import TrainingPhase
from mlm.training.optimizers import first_moments, hidden_parts
from mlm.training.resolved_run import Run, RunFiles
from mlm.training.train_step import Computation, RandomInputs

#: Products in a kernel of attention: scores and weighted sum; for the gradient, the scores again
#: and four more.
_IN_ATTENTION = {"dot_product_attention_fwd_wrapper": 2, "dot_product_attention_bwd_wrapper": 5}
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


def described_train_step(
    run: Run, accelerator: Accelerator, target: str, phase: TrainingPhase | None = None
) -> dict[str, Any]:
    """Return the train step of `run`, that of one replica, in its first phase or another, on
    `target`. Its attention is by cuDNN only on cards that have it."""
    phase, kind = phase or run.phases[0], "gpu" if is_gpu(target) else "tpu"
    how = accelerator, kind, run.architecture, run.plan.sequence_length
    return {
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
    devices: list, description: dict[str, Any]
) -> tuple[jax.stages.Compiled, float]:
    """Return the described step compiled for all `devices`, and the FLOPs of its products on one,
    with all loops. The least effort on fast code takes a quarter of the time; the memory is that of
    a full compilation within a few percent."""
    jax.config.update("jax_exec_time_optimization_effort", -1.0)
    if description["attention"] == "cudnn" and not has_cudnn_attention(devices[0]):
        description = description | {"attention": "xla"}
    traced = traced_step(Mesh(np.array(devices), (AXIS,)), description)
    return traced.lower().compile(), product_flops(traced.jaxpr) / len(devices)


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
    how = description["precision"], description["attention"], recipe.rematerialise
    network = Network(architecture, ops_of("jax"), *how)
    choices = recipe.attend, config["cls_token_id"], recipe.softmax_classes
    computation = Computation(network, *choices)
    optimizer = recipe.optimizer
    state = {
        "parameters": parameters,
        "moments": first_moments(lambda x: x, parameters, optimizer, hidden_parts(architecture)),
        "step": jax.ShapeDtypeStruct((), np.int32),
    }
    parts = optimizer.gradient_accumulation_steps
    random = RandomInputs(computation, recipe.seed or 0, mesh.size, parts)
    step = jax.jit(on_mesh(masked_train_step(random, plan, optimizer), mesh), donate_argnums=0)
    samples = description["samples"] * mesh.size
    sizes = {
        **dict.fromkeys(("input_ids", "attention_mask"), ((plan.sequence_length,), np.int32)),
        **dict.fromkeys(("index", "epoch"), ((), np.uint32)),
    }
    stored = {
        name: jax.ShapeDtypeStruct((samples, *size), kind, sharding=divided)
        for name, (size, kind) in sizes.items()
    }
    stored |= _shaped(random.arrays(0), divided)
    return step.trace(_shaped(state, whole), stored)


def _shaped(tree: Any, sharding: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)


def product_flops(jaxpr: Any) -> int:
    """Return the FLOPs of the products in `jaxpr` on all devices; loops whose length data decides
    count once.

    XLA counts a loop's body once and nothing of cuDNN's kernels, and a GPU's compiler counts
    nothing. What is no product, as a rule less than a hundredth, is left out as by Chowdhery et al.
    ("PaLM", 2022, arXiv 2204.02311, appendix B).
    """
    return sum(map(_of_equation, jaxpr.eqns))


def _of_equation(equation: Any) -> int:
    name, operands = equation.primitive.name, [v.aval.shape for v in equation.invars[:2]]
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        depth = math.prod(operands[0][axis] for axis in contracted)
        return 2 * depth * math.prod(equation.outvars[0].aval.shape)
    if products := _IN_ATTENTION.get(name):
        keys = operands[1][1]  # of [batch, keys, heads, width]
        return 2 * products * math.prod(operands[0]) * keys
    inner = [product_flops(each) for each in jaxprs_in_params(equation.params)]
    if name == "cond":
        return max(inner)
    times = 1
    if name == "scan":
        times = equation.params["length"]
    elif name == "shard_map":  # inside are the shapes of one device
        times = equation.params["mesh"].size
    return sum(inner) * times
