"""The steps that a run takes, lowered to StableHLO for a compiler elsewhere, or described for JAX.

The step is not a copy: it is `train_step.replica_train_step` with the run's model, optimizer
and shapes, traced as each replica of a TPU strategy would trace it. Gradients go through an
all-reduce whose group the compiling process sets to the target's replicas.
"""

import json
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlm.accelerators.artefacts import (
    ADVICE,
    ERROR,
    EVALUATION,
    TILE_SIZES,
    TRAINING,
    VALIDATION,
    WARNING,
    Finding,
    Lowering,
    Step,
)
from mlm.accelerators.described_steps import ONLY_CUDNN, Programs, described_steps
from mlm.accelerators.step_sizes import evaluation_plan, forward_rows, model_figures
from mlm.accelerators.xla_rules import check_graph, source_line
from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.config.resolution import RunConfiguration
from mlm.evaluation.in_tensorflow import masked_answers
from mlm.foundations.atomic import replacing
from mlm.foundations.errors import MlmError
from mlm.foundations.tensorflow_setup import tf, tf_keras
from mlm.samples.input_pipeline import training_batches
from mlm.training.in_jax.attention import attention_on
from mlm.training.in_tensorflow.devices import open_strategy
from mlm.training.in_tensorflow.engine import validation_dataset
from mlm.training.in_tensorflow.model import build_model, number_of_parameters
from mlm.training.in_tensorflow.optimizers import build_optimizer, is_hidden_matrix
from mlm.training.in_tensorflow.train_step import replica_train_step, replica_validation_step
from mlm.training.muon import orthogonalising_flops
from mlm.training.run import Run, RunFiles, read_manifests, run_of

#: Replicas that the step is lowered for: any number above 1 gives it its all-reduces.
_REPLICAS = 2


@dataclass(frozen=True)
class TrainStep:
    """A run's step on one replica, before it is traced.

    `function` takes a batch, a dict of tensors of the shapes in `signature`. `muon_flops` are
    those of `orthogonalising_flops`, None with adamw.
    """

    function: Callable
    signature: dict[str, tf.TensorSpec]
    model: object
    muon_flops: int | None


class _OneOfMany(tf.distribute.ReplicaContext):
    """Replica 0 of several, whose all-reduce is the XLA operation itself.

    A TPU strategy makes the operation CrossReplicaSum of it, which only a TPU's lowering
    knows; this one lowers to the same all-reduce anywhere.
    """

    def __init__(self):
        super().__init__(tf.distribute.get_strategy(), 0)

    @property
    def num_replicas_in_sync(self) -> int:
        return _REPLICAS

    def all_reduce(self, reduce_op, value, options=None):
        from tensorflow.compiler.tf2xla.ops import gen_xla_ops

        group = tf.constant([list(range(_REPLICAS))], tf.int32)
        operation = {"SUM": "Add"}[getattr(reduce_op, "value", reduce_op).upper()]

        def reduced(tensor):
            return gen_xla_ops.xla_all_reduce(
                input=tensor, group_assignment=group, reduce_op=operation, mode="CrossReplica"
            )

        return tf.nest.map_structure(reduced, value)


def train_step_of(run: Run) -> TrainStep:
    """The run's step for one replica of a TPU. Keras' precision policy is already set."""
    model = build_model(run.model_config, run.model.initialisation.attention, run.seed)
    optimizer = build_optimizer(run.pretraining.optimizer, model.trainable_variables)
    section = run.pretraining
    how = section.optimizer, 1, section.softmax_classes, run.seed
    step = one_of_many(replica_train_step(model, optimizer, *how))
    signature = training_batches(run.train, run.plan, run.order_from(0)).element_spec
    hidden = [tuple(v.shape) for v in model.trainable_variables if is_hidden_matrix(v)]
    flops = orthogonalising_flops(hidden) if section.optimizer.kind.orthogonal else None
    return TrainStep(step, signature, model, flops)


def one_of_many(step: Callable) -> Callable:
    """`step`, a function of a replica's batch, as one of several replicas runs it."""

    def on_one_replica(batch):
        with _OneOfMany():
            return step(batch)

    return on_one_replica


def lower(function: Callable, signature) -> tuple[bytes, list[Finding]]:
    """Trace `function`, check the graph against XLA's rules, and lower it to StableHLO.

    `signature` is the one argument's nest of TensorSpecs. Returns the program, empty if it could
    not be lowered, and the broken rules; never raises for a fault of the function.
    """
    compiled = tf.function(function, jit_compile=True, input_signature=[signature])
    try:
        traced = compiled.get_concrete_function()
    except Exception as error:  # whatever the traced code raises
        return b"", [_untraceable(error)]
    findings = check_graph(traced)
    if any(not s.shape.is_fully_defined() for s in tf.nest.flatten(signature)):
        return b"", findings
    arguments = tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), signature)
    try:
        program = compiled.experimental_get_compiler_ir(arguments)(stage="stablehlo_serialized")
    except Exception as error:  # ValueError or an OpError, with XLA's own words
        refusal = _refusal(error)
        if not any(f.op and f.op in refusal.message for f in findings):
            findings.append(refusal)
        return b"", findings
    return program, findings


def _untraceable(error: Exception) -> Finding:
    words = [w for w in str(error).splitlines() if w.strip()]
    branch = isinstance(error, (tf.errors.OperatorNotAllowedInGraphError, TypeError))
    rule = "static_control_flow" if branch and "bool" in str(error) else "lowers_to_xla"
    message = f"the step cannot be traced: {type(error).__name__}: {words[-1].strip()[:400]}"
    source = source_line(traceback.extract_tb(error.__traceback__))
    return Finding(rule, ERROR, message, source=source)


def _refusal(error: Exception) -> Finding:
    text = str(error)
    names = re.findall(r"([A-Z]\w+) \(No registered '\1' OpKernel", text)
    if names:
        ops = ", ".join(sorted(set(names)))
        return Finding("lowers_to_xla", ERROR, f"XLA has no such operation: {ops}", op=names[0])
    return Finding("lowers_to_xla", ERROR, f"XLA refuses the step: {' '.join(text.split())[:400]}")


def lower_run(
    settings: RunConfiguration,
    files: RunFiles,
    program: str,
    evaluation: Evaluation | None = None,
    validation_program: str = "",
    evaluation_programs: dict[int, str] | None = None,
) -> Lowering:
    """Write the run's train step to `program`; what was found on the way.

    With section `evaluation`, the steps without gradients as well; those of the evaluation are
    by the number of replicas. A step that breaks a rule is an answer, not an error: programs that
    could not be lowered are empty files.
    """
    precision = settings.accelerator.precision_on("tpu")
    paths: dict[str | int, str] = {TRAINING: program}
    replicas = list(evaluation_programs or {})
    if evaluation:
        paths |= {VALIDATION: validation_program, **evaluation_programs}
    described: dict = {"engine": settings.engine, "precision": precision, "lowered": False}
    model, programs, findings = None, {}, []
    try:
        manifests = read_manifests(files, settings.sequence_length)
        run = run_of(settings, files, manifests, replicas=1)
        if settings.engine == "jax":
            attention = attention_on(settings.accelerator, "gpu", run)
    except MlmError as error:
        findings.append(Finding("settings", ERROR, str(error)))
    else:
        model = json.loads(run.model_config.to_json_string())
        described |= run.step_sizes()
        if settings.engine == "jax":
            if settings.accelerator.attention == "cudnn":
                attention = ONLY_CUDNN
            programs = described_steps(run, precision, attention, evaluation, replicas)
            described |= model_figures(run)
        else:
            figures, programs, findings = _lowered_steps(run, precision, evaluation, replicas)
            described |= figures
        described["lowered"] = bool(programs[TRAINING])
        sizes = {
            "pretraining.per_replica_batch_size": run.pretraining.per_replica_batch_size,
            "shards.sequence_length": run.plan.sequence_length,
        }
        findings += tile_advice(sizes)
        if evaluation and described["lowered"]:
            described["forward_rows"] = forward_rows(run, evaluation, replicas)
    for step, path in paths.items():
        with replacing(path) as temporary:
            temporary.write_bytes(programs.get(step, b""))
    return Lowering(settings.name, Step(**described), findings, model)


def _lowered_steps(
    run: Run, precision: str, section: Evaluation | None, replicas: Sequence[int]
) -> tuple[dict, Programs, list[Finding]]:
    """Figures for `Step`, TensorFlow's programs, and what was found."""
    print(f"{run.name}: building the model and tracing its step", file=sys.stderr)
    # A CPU to trace on, with the precision that the TPU will have.
    open_strategy(Accelerator(kind="cpu", precision=precision))
    step = train_step_of(run)
    figures = {"parameters": number_of_parameters(step.model), "muon_flops": step.muon_flops}
    content, findings = lower(step.function, step.signature)
    programs: Programs = {TRAINING: content}
    if section and content:
        forward, found = lower_forward(run, step.model, section, replicas)
        return figures, programs | forward, findings + found
    return figures, programs, findings


def lower_forward(
    run: Run, model, section: Evaluation, replicas: Sequence[int]
) -> tuple[Programs, list[Finding]]:
    """The steps without gradients, those of the evaluation by the number of replicas.

    `model` is the one that trains. Evaluation has one of its own, in float32 as `evaluate` does;
    Keras' precision policy is float32 afterwards.
    """
    print(f"{run.name}: tracing the steps of validation and evaluation", file=sys.stderr)
    signature = validation_dataset(run, run.validation_batch_size).element_spec
    lowered = {VALIDATION: lower(one_of_many(replica_validation_step(model)), signature)}
    tf_keras.mixed_precision.set_global_policy("float32")
    answers = masked_answers(build_model(run.model_config, "standard", run.seed))
    plan = evaluation_plan(run, section)
    sizes = {"input_ids": plan.sequence_length, "attention_mask": plan.sequence_length}
    sizes |= {"positions": plan.slots, "labels": plan.slots}
    for count, rows in forward_rows(run, section, replicas).evaluation.items():
        signature = {name: tf.TensorSpec((rows, size), tf.int32) for name, size in sizes.items()}
        lowered[count] = lower(lambda batch: answers(**batch), signature)
    findings = [
        replace(f, message=f"{step if step == VALIDATION else EVALUATION}: {f.message}")
        for step, (_, found) in lowered.items()
        for f in found
    ]
    return {step: content for step, (content, _) in lowered.items()}, findings


def tile_advice(sizes: dict[str, int]) -> list[Finding]:
    """What padding to the hardware's tiles wastes, for settings such as batch and sequence length.

    A TPU keeps the last two dimensions of an array in tiles of 8 × 128 numbers of 32 bits, and its
    matrix unit multiplies 128 × 128 (Cloud TPU documentation, "Performance guide").
    """
    findings = []
    for name, size in sizes.items():
        for multiple, severity in ((8, WARNING), (128, ADVICE)):
            if waste := -size % multiple / (size + -size % multiple):
                message = (
                    f"{name} is {size}, no multiple of {multiple}: {waste:.0%} of a TPU's tiles is "
                    f"padding. Try {size + -size % multiple}"
                )
                findings.append(Finding(TILE_SIZES, severity, message))
                break
    return findings
