"""The steps of a run whose engine is JAX: described in JSON, and compiled from that for any target.

Whoever compiles builds the very functions of `mlm.training.in_jax`, `mlm.evaluation.in_jax` and
`mlm.finetuning` from the description over a mesh of the target's devices, without weights or data.
"""

import json
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from mlm.accelerators.artefacts import ForwardRows
from mlm.config.evaluation import Evaluation
from mlm.config.finetune import Finetune
from mlm.config.pretraining import Optimizer
from mlm.evaluation.scoring import rows_of_a_replica
from mlm.foundations.atomic import write_text
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.samples.masking import VALIDATION_SEED, MaskingPlan
from mlm.training.in_jax.devices import AXIS, shardings
from mlm.training.optimisation import orthogonalising_flops
from mlm.training.run import Run

TRAINING, VALIDATION, EVALUATION, FINETUNING = "training", "validation", "evaluation", "finetuning"


def evaluation_plan(run: Run, section: Evaluation) -> MaskingPlan:
    """How the evaluation masks."""
    asked = ("mlm_probability", "mask_token", "random_token")
    return replace(run.validation_plan, **{key: getattr(section, key) for key in asked})


def forward_rows(run: Run, section: Evaluation, replicas: list[int]) -> ForwardRows:
    """The samples that a replica gets in the steps without gradients.

    They have no gradients and no moments, but may take more samples at once, or logits for more
    positions, than a train step.
    """
    plan = evaluation_plan(run, section)
    sizes = section.batch_size, plan.slots, plan.vocabulary_size
    evaluation = {n: rows_of_a_replica(sizes[0], n, *sizes[1:]) for n in replicas}
    return ForwardRows(run.pretraining.per_replica_batch_size, evaluation)


def describe_training(run: Run, precision: str, program: str) -> dict:
    """Write the description of the run's train step to `program`; the fields of `Step`."""
    from mlm.training.in_jax.optimizers import hidden_parts

    architecture = Architecture.of(run.model_config.to_dict())
    _describe(program, TRAINING, run, run.plan, precision, run.batch_size)
    shapes = parameter_shapes(architecture)
    flops = None
    if run.pretraining.optimizer.name == "muon":
        matrices = [
            (shapes[name][0] // parts, shapes[name][1])
            for name, parts in hidden_parts(architecture).items()
            for _ in range(parts)
        ]
        flops = orthogonalising_flops(matrices)
    return {
        "parameters": sum(int(np.prod(shape)) for shape in shapes.values()),
        "muon_flops": flops,
    }


def describe_forward(
    run: Run, precision: str, section: Evaluation, validation: str, evaluation: dict[int, str]
) -> None:
    """Write the steps without gradients; those of `evaluation` by the number of replicas."""
    size, plan = run.validation_batch_size, run.validation_plan
    _describe(validation, VALIDATION, run, plan, precision, size)
    for replicas, rows in forward_rows(run, section, list(evaluation)).evaluation.items():
        plan = evaluation_plan(run, section)
        _describe(evaluation[replicas], EVALUATION, run, plan, "float32", rows)


def _describe(
    path: str, step: str, run: Run, plan: MaskingPlan, precision: str, samples: int
) -> None:
    description = description_of(
        step,
        run.model_config.to_dict(),
        plan,
        run.pretraining.optimizer,
        attend=run.pretraining.attend,
        rematerialise=run.pretraining.rematerialise,
        shard_optimizer=run.pretraining.shard_optimizer,
        precision=precision,
        begins_document=run.model_config.cls_token_id,
        samples=samples,
        seed=run.seed,
    )
    write_text(path, json.dumps(description, sort_keys=True) + "\n")


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
    """XLA's executable of the described step for all `devices`."""
    import jax
    from jax.sharding import Mesh

    if quick:
        jax.config.update("jax_exec_time_optimization_effort", -1.0)
    return (
        lowered_step(Mesh(np.array(devices), (AXIS,)), description).compile().runtime_executable()
    )


def lowered_step(mesh, description: dict):
    """The described step, lowered by JAX for the devices of `mesh`.

    Raises MlmError for a model that cannot be fine-tuned.
    """
    if description["step"] == FINETUNING:
        return _finetuning(mesh, description)
    architecture = Architecture.of(description["config"])
    starts = description["plan"].pop("word_starts")
    plan = MaskingPlan(
        **description["plan"], word_starts=None if starts is None else np.array(starts)
    )
    lower = {TRAINING: _training, VALIDATION: _validation, EVALUATION: _evaluation}
    return lower[description["step"]](mesh, architecture, plan, description)


def _parameters(architecture: Architecture) -> dict:
    import jax

    from mlm.model.weights import initial_parameters

    return jax.eval_shape(partial(initial_parameters, architecture), jax.random.key(0))


def _shaped(tree, sharding):
    import jax

    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)


def _batch(mesh, description: dict, **sizes):
    """Shapes of a batch of all devices; `sizes` has those of a sample and the type by name."""
    import jax

    samples, divided = description["samples"] * mesh.size, shardings(mesh)[1]
    return {
        name: jax.ShapeDtypeStruct((samples, *size), kind, sharding=divided)
        for name, (size, kind) in sizes.items()
    }


def _computation(architecture: Architecture, description: dict):
    from mlm.training.in_jax.train_step import Computation

    settings = (description[name] for name in ("attend", "rematerialise", "precision"))
    return Computation(architecture, *settings, description["begins_document"])


def _stored(mesh, architecture: Architecture, plan: MaskingPlan, description: dict) -> dict:
    from mlm.training.in_jax.train_step import token_type

    tokens = (plan.sequence_length,), token_type(architecture.vocabulary)
    return _batch(mesh, description, tokens=tokens, index=((), np.uint32))


def _training(mesh, architecture: Architecture, plan: MaskingPlan, description: dict):
    import jax
    from jax.sharding import NamedSharding

    from mlm.training.in_jax.layout import UNDIVIDED, Division
    from mlm.training.in_jax.optimizers import first_moments, hidden_parts
    from mlm.training.in_jax.train_step import on_mesh, train_step

    settings, parameters = Optimizer.of_param(description["optimizer"]), _parameters(architecture)
    first = partial(first_moments, settings=settings, hidden=hidden_parts(architecture))
    state = {
        "parameters": parameters,
        "moments": jax.eval_shape(first, parameters),
        "step": jax.ShapeDtypeStruct((), np.int32),
    }
    division = UNDIVIDED
    if description["shard_optimizer"]:
        division = Division.of({n: x.shape for n, x in parameters.items()}, mesh.size)
    partition = division.of_state(state["moments"])
    computation = _computation(architecture, description)
    step = train_step(computation, plan, settings, description["seed"], division)
    step = jax.jit(on_mesh(step, mesh, partition), donate_argnums=0)
    given = jax.tree.map(partial(NamedSharding, mesh), partition)
    state = jax.tree.map(lambda sharding, part: _shaped(part, sharding), given, state)
    batch = _stored(mesh, architecture, plan, description)
    return step.lower(state, batch | _batch(mesh, description, epoch=((), np.uint32)))


def _validation(mesh, architecture: Architecture, plan: MaskingPlan, description: dict):
    import jax

    from mlm.training.in_jax.train_step import on_mesh, validation_step

    step = validation_step(_computation(architecture, description), plan, VALIDATION_SEED)
    parameters = _shaped(_parameters(architecture), shardings(mesh)[0])
    batch = _stored(mesh, architecture, plan, description)
    return jax.jit(on_mesh(step, mesh)).lower(parameters, batch)


def _evaluation(mesh, architecture: Architecture, plan: MaskingPlan, description: dict):
    import jax

    from mlm.evaluation.in_jax import masked_answers

    whole, divided = shardings(mesh)
    row, slots = ((plan.sequence_length,), np.int32), ((plan.slots,), np.int32)
    asked = {"input_ids": row, "attention_mask": row, "positions": slots, "labels": slots}
    within = description["attend"] == "document"
    answers = masked_answers(architecture, description["begins_document"] if within else None)
    step = jax.jit(answers, out_shardings=divided)
    parameters = _shaped(_parameters(architecture), whole)
    return step.lower(parameters, _batch(mesh, description, **asked))


def _finetuning(mesh, description: dict):
    """The step of a fold. Passages are padded to one length and the last batch is filled up, so
    that no shape changes."""
    import jax
    import jax.numpy as jnp

    from mlm.finetuning.fold_engine import adamw, first_state, lowered_fold
    from mlm.finetuning.sequence_model import sequence_model

    section = Finetune.of_param(description["section"])
    precision = jnp.dtype(description["precision"])
    model = sequence_model(
        description["config"], description["outputs"], section.dropout, precision
    )
    optimizer = adamw(section, 1000)
    parameters = jax.eval_shape(partial(model.random_parameters, seed=0))
    state = jax.eval_shape(partial(first_state, optimizer=optimizer, seed=0), parameters)
    size = section.per_device_batch_size * mesh.size, model.length(section.max_length)
    return lowered_fold(mesh, model, optimizer, state, *size)[0]
