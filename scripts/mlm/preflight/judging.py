"""Preflight: compile a run's steps for real targets and say what would fail there.

Nothing is executed, so numerics, the speed of a target's kernels and of the input pipeline, and
the network stay unseen.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlm.config.accelerator import Accelerator
from mlm.config.chips import hosts_of, memory_of_a_replica
from mlm.config.evaluation import Evaluation
from mlm.config.pretraining import RunConfiguration
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import in_binary_bytes
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.preflight.artefacts import (
    ERROR,
    EVALUATION,
    LABEL,
    TRAINING,
    VALIDATION,
    WARNING,
    Finding,
    ForwardReport,
    PreflightVerdict,
    Step,
    Target,
    failed,
)
from mlm.preflight.compiler import COMPILED, NO_MEMORY, Compilation, compile_for, compiler_versions
from mlm.preflight.costs import UTILISATION, add_times
from mlm.preflight.described_steps import described_steps
from mlm.training.devices import Devices
from mlm.training.run import Run, RunFiles, read_manifests, run_of

#: Numbers in a model from which a compilation is quick: with full effort a base model takes 100 to
#: 130 seconds, a small one a few.
_LARGE_MODEL = 30_000_000
UNSEEN = (
    "nothing is executed: numerics and loss curves",
    "the speed of the kernels that a device runs, and of the input pipeline",
    "the network, the storage and the rights of the machine that trains",
)
_TIME = (
    f"Times are at {100 * UTILISATION:.0f} % of the datasheet's peak, which Ettin's encoder of 150 "
    "million parameters reached on H100s; 'from … on': the memory's bandwidth allows no such speed"
)
_TENSORFLOW = (
    "TensorFlow's own train step is compiled by XLA on this machine's CPU alone: what is compiled "
    "for TPUs and GPUs is the JAX engine's program for this run"
)
#: The setting of each step's batch.
_BATCH_KEYS = {
    TRAINING: "pretraining.per_replica_batch_size",
    VALIDATION: "pretraining.per_replica_batch_size",
    EVALUATION: "evaluation.batch_size",
}


def preflight(
    names: Sequence[str],
    config: RunConfiguration,
    files: RunFiles,
    evaluation: Evaluation,
    state_directory: str,
) -> PreflightVerdict:
    """Compile the steps of a run for the targets `names`, and judge. Its state is written to
    `state_directory`. A fault of the run's settings is a verdict, too."""
    in_tensorflow = config.engine == "tensorflow"
    if in_tensorflow:  # transformers looks for it once
        import mlm.foundations.tensorflow_setup  # noqa: F401
    step = Step(
        precision=config.accelerator.precision_on("tpu"),
        engine=config.engine,
        per_replica_batch_size=config.pretraining.per_replica_batch_size,
        gradient_accumulation_steps=config.pretraining.optimizer.gradient_accumulation_steps,
    )
    findings: list[Finding] = []
    targets: list[Target] = []
    notes, quick = [], False
    try:
        run = run_of(config, files, read_manifests(files, config.sequence_length), replicas=1)
    except MlmError as error:
        findings.append(Finding("settings", ERROR, str(error)))
    else:
        notes = [*([_TENSORFLOW] if in_tensorflow else []), _TIME]
        if in_tensorflow:
            from mlm.training.in_tensorflow.devices import open_strategy

            settings = {"kind": "cpu", "precision": step.precision}
            devices = open_strategy(Accelerator.model_validate(settings))
            if words := _timed("TensorFlow's train step", xla_refusal_of, run, devices):
                words = f"XLA cannot compile TensorFlow's train step, not even for a CPU: {words}"
                findings.append(Finding("compiles_with_xla", ERROR, words))
        architecture = Architecture.of(run.model_config.to_dict())
        quick = sum(map(math.prod, parameter_shapes(architecture).values())) > _LARGE_MODEL
        for name in names:
            steps = described_steps(run, config.accelerator, name, evaluation)
            compiled = _timed(name, compile_for, name, *steps.values(), quick=quick)
            answers = dict(zip(steps, compiled, strict=True))
            rows = {kind: described["samples"] for kind, described in steps.items()}
            trained = list(steps)[: len(run.phases)]
            largest = max(trained, key=lambda kind: _memory(answers[kind]))
            train = run.phases[trained.index(largest)].train
            batch = rows[largest] // step.gradient_accumulation_steps
            on = replace(step, per_replica_batch_size=batch)
            target = describe(name, answers[largest], on, steps[largest]["precision"])
            findings += check_data(train.num_samples, on, target, state_directory)
            others = {k: a for k, a in answers.items() if k not in trained}
            answers = {TRAINING: answers[largest], **others}
            findings += _judged(target, rows | {TRAINING: batch}, answers)
            if target.fits and train.num_samples >= (target.global_batch_size or 0):
                batch = config.pretraining.batch_on(target.replicas).samples
                sizes = run.train.num_samples, config.sequence_length, batch
                add_times(target, config.pretraining.updates(*sizes))
            targets.append(target)
    return PreflightVerdict(
        run=config.name,
        passed=not failed(findings),
        label=LABEL,
        effort="quick" if quick else "full",
        notes=notes,
        unseen=list(UNSEEN),
        step=step,
        findings=findings,
        targets=targets,
        packages=compiler_versions(),
    )


def _memory(answer: Compilation) -> float:
    """Bytes that a step needs; infinite if it was not compiled."""
    return answer.memory.peak + answer.memory.code if answer.memory else math.inf


def _timed(what: str, compile_step: Callable, *arguments: Any, **options: Any) -> Any:
    begun = time.monotonic()
    answer = compile_step(*arguments, **options)
    print(f"{what}: answered after {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return answer


def xla_refusal_of(run: Run, devices: Devices) -> str | None:
    """XLA's words if it cannot compile TensorFlow's train step of one replica of `run`, or None."""
    from mlm.training.in_tensorflow.engine import TensorFlowEngine

    steps = TensorFlowEngine(run, devices).steps_and_batches()
    return next(filter(None, (xla_refusal(*step) for step in steps)), None)


def xla_refusal(step: Callable, batch: dict[str, Any]) -> str | None:
    """XLA's words if it cannot compile `step`, a function of a batch like this, else None; nothing
    is executed. `jit_compile=True` refuses what no XLA device runs, such as shapes that depend on
    data and calls of Python on the host."""
    from mlm.foundations.tensorflow_setup import tf

    compiled = tf.function(lambda **batch: step(batch), jit_compile=True, autograph=False)
    try:
        # Without tensors: XLA would take their values for constants.
        compiled.experimental_get_compiler_ir(**batch)(stage="optimized_hlo")
    except Exception as error:  # whatever the step raises when it is traced, lowered or compiled
        words = " ".join(str(error).split("Stack trace for op definition")[0].split())
        return f"{type(error).__name__}: {words[:600]}"
    return None


def describe(name: str, answer: Compilation, step: Step, precision: str) -> Target:
    """A target as the compiler describes it, with its counts of the train step."""
    target = Target(
        target=name,
        precision=precision,
        outcome=answer.outcome,
        message=answer.message,
        replicas=answer.replicas,
        chips=answer.chips,
        hosts=hosts_of(name, answer.hosts) if answer.hosts else 0,
        memory=answer.memory,
    )
    if answer.replicas:
        target.global_batch_size = step.batch_on(answer.replicas).samples
        target.hbm_per_replica = memory_of_a_replica(name)
    if answer.memory:
        target.flops_per_step = answer.flops
        # XLA counts a loop's body once. What is outside, the update, is counted as often here.
        target.bytes_accessed = answer.bytes_accessed * step.gradient_accumulation_steps
    return target


def check_data(samples: int, step: Step, target: Target, state_directory: str) -> list[Finding]:
    """What the engine and a train split of so many `samples` lack for the replicas and hosts of
    `target`, which write their state to `state_directory`."""
    findings = []
    if target.replicas and (problem := step.batch_on(target.replicas).unfilled(samples)):
        findings.append(Finding("full_global_batch", ERROR, problem, target.target))
    if target.hosts > 1 and step.engine != "jax":
        problem = (
            f"the target has {target.hosts} hosts, and only JAX trains on several: set "
            "pretraining.engine: jax, or take a target of one host"
        )
        findings.append(Finding("engine_for_hosts", ERROR, problem, target.target))
    if target.hosts > 1 and not state_directory.startswith("gs://"):
        problem = (
            f"{target.hosts} hosts write the state, each on its own disk: put it on gs:// or on a "
            "file system that all hosts share"
        )
        findings.append(Finding("readable_paths", WARNING, problem, target.target))
    return findings


def _judged(
    target: Target, rows: Mapping[str, int], answers: Mapping[str, Compilation]
) -> list[Finding]:
    """Add to `target` whether each step, of `rows` samples a replica, fits; return the faults."""
    findings = []
    for kind, answer in answers.items():
        fits, message = _fits(target, answer)
        if kind == TRAINING:
            target.fits = fits
        else:
            peak = answer.memory.peak if answer.memory else 0
            target.forward[kind] = ForwardReport(rows[kind], answer.outcome, fits, peak)
        if fits or (kind != TRAINING and target.fits is fits is None):
            continue
        message = f"{kind} of {rows[kind]} samples a replica: {message.rstrip('.')}"
        if fits is None:
            findings.append(Finding("compiles", ERROR, message, target.target))
            continue
        remedy = f"lower {_BATCH_KEYS[kind]}"
        if kind == TRAINING and target.precision != "bfloat16":
            remedy += ", or use accelerator.precision: bfloat16"
        message = f"{message}. To mend it, {remedy}"
        findings.append(Finding("fits", ERROR, message, target.target))
    return findings


def _fits(target: Target, answer: Compilation) -> tuple[bool | None, str]:
    """Whether a program fits a replica's memory, None if unknown, and the compiler's words.

    The compiler refuses what its own limit cannot hold; the datasheet is the second opinion.
    """
    hbm, memory = target.hbm_per_replica or 0, answer.memory
    if answer.outcome == COMPILED and memory and (needed := memory.peak + memory.code) > hbm:
        sizes = in_binary_bytes(needed), in_binary_bytes(hbm)
        return False, "one replica needs {} and has {}".format(*sizes)
    return {COMPILED: True, NO_MEMORY: False}.get(answer.outcome), answer.message
