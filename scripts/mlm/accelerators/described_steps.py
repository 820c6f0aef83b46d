"""The steps of a run whose engine is JAX: described, and compiled from that for any target.

Where TensorFlow's step is lowered to StableHLO, this one is described in JSON: architecture, masks,
optimizer and sizes. Whoever compiles builds the very functions of `mlm.training.in_jax` and
`mlm.evaluation.in_jax` from it over a mesh of the target's devices, without weights or data, and
lowers nothing for another device in between.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from mlm.accelerators.artefacts import ForwardRows
from mlm.accelerators.compiler import Compilation, answer, compile_for, compile_here
from mlm.config.evaluation import Evaluation
from mlm.config.pretraining import Optimizer
from mlm.evaluation.scoring import rows_of_a_replica
from mlm.foundations.atomic import write_text
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.samples.masking import VALIDATION_SEED, MaskingPlan
from mlm.training.in_jax.framework import AXIS, prepare_jax, shardings
from mlm.training.optimisation import orthogonalising_flops
from mlm.training.run import Run

TRAINING, VALIDATION, EVALUATION = "training", "validation", "evaluation"


@dataclass(frozen=True)
class ForwardSteps:
    """The steps without gradients, and where they are written to: a file for validation, and for
    evaluation one for each number of replicas, which share `evaluation.batch_size`.

    They have no gradients and no moments, but may take more samples at once, or logits for more
    positions, than a train step; a training dies of them as surely.
    """

    section: Evaluation
    validation: str
    evaluation: dict[int, str]

    @property
    def files(self) -> list[str]:
        return [self.validation, *self.evaluation.values()]

    def plan(self, run: Run) -> MaskingPlan:
        """How the evaluation masks."""
        asked = ("mlm_probability", "mask_token", "random_token")
        return replace(run.validation_plan, **{key: getattr(self.section, key) for key in asked})

    def rows(self, run: Run) -> ForwardRows:
        """The samples that a replica gets in each."""
        plan = self.plan(run)
        size, sizes = self.section.batch_size, (plan.slots, plan.vocabulary_size)
        evaluation = {n: rows_of_a_replica(size, n, *sizes) for n in self.evaluation}
        return ForwardRows(run.pretraining.per_replica_batch_size, evaluation)


def describe_training(run: Run, precision: str, program: str) -> dict:
    """Write the run's train step to `program`; what is said of it beside, as fields of `Step`."""
    from mlm.training.in_jax.optimizers import hidden_parts
    from mlm.training.in_jax.train_step import token_type

    architecture = Architecture.of(run.model_config.to_dict())
    samples = run.batch_size
    _write(program, TRAINING, run, run.plan, precision, samples)
    shapes, tokens = parameter_shapes(architecture), token_type(architecture.vocabulary)
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
        "inputs": {
            "epoch": [[samples], "uint32"],
            "index": [[samples], "uint32"],
            "tokens": [[samples, run.plan.sequence_length], tokens.__name__],
        },
    }


def describe_forward(run: Run, precision: str, steps: ForwardSteps) -> None:
    """Write the programs of `steps`."""
    size, plan = run.validation_batch_size, run.validation_plan
    _write(steps.validation, VALIDATION, run, plan, precision, size)
    for replicas, rows in steps.rows(run).evaluation.items():
        _write(steps.evaluation[replicas], EVALUATION, run, steps.plan(run), "float32", rows)


def _write(path: str, step: str, run: Run, plan: MaskingPlan, precision: str, samples: int) -> None:
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
    return fields | {
        "step": step,
        "config": config,
        "plan": asdict(plan)
        | {"word_starts": None if starts is None else [bool(s) for s in starts]},
        "optimizer": optimizer.model_dump(),
    }


def is_described(program: str | Path) -> bool:
    """Whether `program` is a description, and not StableHLO."""
    with open(program, "rb") as stream:
        return stream.read(1) == b"{"


def compile_step(
    target: str,
    program: str | Path,
    quick: bool = False,
    others: Sequence[str] = (),
    others_quick: bool = False,
) -> Compilation:
    """`compile_for` of StableHLO or of a description."""
    own = {"module": "mlm.accelerators.described_steps"} if is_described(program) else {}
    return compile_for(target, program, quick, others, others_quick, **own)


def compiled(devices, program: str, quick: bool):
    """The executable for all `devices`."""
    import jax
    from jax.sharding import Mesh

    description = json.loads(Path(program).read_text(encoding="utf-8"))
    if quick:
        jax.config.update("jax_exec_time_optimization_effort", -1.0)
    mesh = Mesh(np.array(devices), (AXIS,))
    return _lowered(mesh, description).compile().runtime_executable()


def _lowered(mesh, description: dict):
    import jax
    from jax.sharding import NamedSharding

    from mlm.evaluation.in_jax import masked_answers
    from mlm.model.weights import initial_parameters
    from mlm.training.in_jax import train_step
    from mlm.training.in_jax.layout import UNDIVIDED, Division
    from mlm.training.in_jax.optimizers import first_moments, hidden_parts

    architecture = Architecture.of(description["config"])
    starts = description["plan"].pop("word_starts")
    plan = MaskingPlan(
        **description["plan"], word_starts=None if starts is None else np.array(starts)
    )
    settings = Optimizer.of_param(description["optimizer"])
    computation = train_step.Computation(
        architecture,
        *(description[name] for name in ("attend", "rematerialise", "precision")),
        description["begins_document"],
    )
    whole, divided = shardings(mesh)
    samples = description["samples"] * mesh.size

    def shaped(tree, sharding):
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree
        )

    def batch(**sizes):
        return {
            name: jax.ShapeDtypeStruct((samples, *size), kind, sharding=divided)
            for name, (size, kind) in sizes.items()
        }

    parameters = jax.eval_shape(partial(initial_parameters, architecture), jax.random.key(0))
    if description["step"] == EVALUATION:
        row, slots = ((plan.sequence_length,), np.int32), ((plan.slots,), np.int32)
        asked = batch(input_ids=row, attention_mask=row, positions=slots, labels=slots)
        within = description["attend"] == "document"
        answers = masked_answers(architecture, description["begins_document"] if within else None)
        step = jax.jit(answers, out_shardings=divided)
        return step.lower(shaped(parameters, whole), asked)
    tokens = train_step.token_type(architecture.vocabulary)
    stored = batch(tokens=((plan.sequence_length,), tokens), index=((), np.uint32))
    if description["step"] == VALIDATION:
        step = train_step.validation_step(computation, plan, VALIDATION_SEED)
        step = jax.jit(train_step.on_mesh(step, mesh))
        return step.lower(shaped(parameters, whole), stored)
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
    step = train_step.train_step(computation, plan, settings, description["seed"], division)
    step = jax.jit(train_step.on_mesh(step, mesh, partition), donate_argnums=0)
    given = jax.tree.map(partial(NamedSharding, mesh), partition)
    state = jax.tree.map(lambda sharding, part: shaped(part, sharding), given, state)
    return step.lower(state, stored | batch(epoch=((), np.uint32)))


def _answer(request: dict) -> Compilation:
    target = request.pop("target")
    return compile_here(target, lambda devices: compiled(devices, **request))


if __name__ == "__main__":
    prepare_jax("cpu", 1, None)
    answer(_answer)
