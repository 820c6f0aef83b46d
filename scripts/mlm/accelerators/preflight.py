"""Preflight: compile a run's steps for real targets and say what would fail there.

Nothing is executed, so numerics, the speed of a target's kernels and of the input pipeline, and
the network stay unseen.
"""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from mlm.accelerators.artefacts import (
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
from mlm.accelerators.compiler import (
    COMPILED,
    NO_MEMORY,
    Compilation,
    compile_for,
    compiler_versions,
)
from mlm.accelerators.described_steps import described_steps
from mlm.accelerators.roofline import UTILISATION, add_times
from mlm.config.accelerator import Accelerator
from mlm.config.chips import hosts_of, memory_of_a_replica
from mlm.config.evaluation import Evaluation
from mlm.config.pretraining import RunConfiguration
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import in_binary_bytes
from mlm.model.architecture import Architecture, parameter_shapes
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
    if config.engine == "tensorflow":  # transformers looks for it once
        import mlm.foundations.tensorflow_setup  # noqa: F401
    step = Step(
        precision=config.accelerator.precision_on("tpu"),
        engine=config.engine,
        per_replica_batch_size=config.pretraining.per_replica_batch_size,
        gradient_accumulation_steps=config.pretraining.optimizer.gradient_accumulation_steps,
    )
    try:
        manifests = read_manifests(files, config.sequence_length)
        run = run_of(config, files, manifests, replicas=1)
    except MlmError as error:
        return _verdict(config.name, step, [Finding("settings", ERROR, str(error))])
    findings, notes = [], []
    if config.engine == "tensorflow":
        notes.append(_TENSORFLOW)
        findings += _compiled_by_tensorflow(run, step.precision)
    architecture = Architecture.of(run.model_config.to_dict())
    parameters = sum(map(math.prod, parameter_shapes(architecture).values()))
    targets, quick = [], parameters > _LARGE_MODEL
    for name in names:
        steps = described_steps(run, config.accelerator, name, evaluation)
        answers = dict(zip(steps, _compiled(name, list(steps.values()), quick), strict=True))
        on = replace(step, precision=steps[TRAINING]["precision"])
        target = describe(name, answers[TRAINING], on)
        findings += check_data(run.train.num_samples, on, target, state_directory)
        for kind, answer in answers.items():
            rows = steps[kind]["samples"] if kind != TRAINING else step.per_replica_batch_size
            findings += judge(target, kind, rows, answer)
        if target.fits and run.train.num_samples >= target.global_batch_size:
            sizes = run.train.num_samples, config.sequence_length, target.global_batch_size
            add_times(target, config.pretraining.updates(*sizes))
        targets.append(target)
    effort = "quick" if quick else "full"
    return _verdict(config.name, step, findings, targets, [*notes, _TIME], effort)


def _verdict(
    run: str,
    step: Step,
    findings: list[Finding],
    targets: Sequence[Target] = (),
    notes: Sequence[str] = (),
    effort: str = "full",
) -> PreflightVerdict:
    return PreflightVerdict(
        run=run,
        passed=not failed(findings),
        label=LABEL,
        effort=effort,
        notes=list(notes),
        unseen=list(UNSEEN),
        step=step,
        findings=findings,
        targets=list(targets),
        packages=compiler_versions(),
    )


def _compiled_by_tensorflow(run: Run, precision: str) -> list[Finding]:
    """By XLA on the CPU, with the `precision` that a TPU would have."""
    from mlm.accelerators import tensorflow_step
    from mlm.training.in_tensorflow.devices import open_strategy

    begun = time.monotonic()
    devices = open_strategy(Accelerator(kind="cpu", precision=precision))
    words = tensorflow_step.xla_refusal_of(run, devices)
    outcome = "refused" if words else "compiled"
    seconds = time.monotonic() - begun
    print(
        f"TensorFlow's train step, by XLA on the CPU: {outcome} after {seconds:.0f} s",
        file=sys.stderr,
    )
    message = f"XLA cannot compile TensorFlow's train step, not even for a CPU: {words}"
    return [Finding("compiles_with_xla", ERROR, message)] if words else []


def _compiled(target: str, steps: list[dict], quick: bool) -> list[Compilation]:
    begun = time.monotonic()
    answers = compile_for(target, *steps, quick=quick)
    outcomes, seconds = ", ".join(a.outcome for a in answers), time.monotonic() - begun
    print(f"{target}: {outcomes} after {seconds:.0f} s", file=sys.stderr)
    return answers


def describe(name: str, answer: Compilation, step: Step) -> Target:
    """A target as the compiler describes it, with its counts of the train step."""
    target = Target(
        target=name,
        precision=step.precision,
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
    if not target.replicas:
        return []
    findings = []

    def find(rule: str, message: str, severity: str = ERROR) -> None:
        findings.append(Finding(rule, severity, message, target.target))

    if problem := step.batch_on(target.replicas).unfilled(samples):
        find("full_global_batch", problem)
    if target.hosts > 1 and step.engine != "jax":
        find(
            "engine_for_hosts",
            f"the target has {target.hosts} hosts, and only JAX trains on several: set "
            "pretraining.engine: jax, or take a target of one host",
        )
    if target.hosts > 1 and not state_directory.startswith("gs://"):
        find(
            "readable_paths",
            f"{target.hosts} hosts write the state, each on its own disk: put it on gs:// or on a "
            "file system that all hosts share",
            WARNING,
        )
    return findings


def judge(target: Target, kind: str, rows: int, answer: Compilation) -> list[Finding]:
    """Add to `target` whether its step of `kind`, `rows` samples a replica, fits; what keeps it
    from compiling or fitting."""
    fits, message = _fits(target, answer)
    if kind == TRAINING:
        target.fits = fits
    else:
        peak = answer.memory.peak if answer.memory else 0
        target.forward[kind] = ForwardReport(rows, answer.outcome, fits, peak)
    if fits or (kind != TRAINING and target.fits is fits is None):
        return []
    message = f"{kind} of {rows} samples a replica: {message.rstrip('.')}"
    if fits is None:
        return [Finding("compiles", ERROR, message, target.target)]
    remedy = f"lower {_BATCH_KEYS[kind]}"
    if kind == TRAINING and target.precision != "bfloat16":
        remedy += ", or use accelerator.precision: bfloat16"
    return [Finding("fits", ERROR, f"{message}. To mend it, {remedy}", target.target)]


def _fits(target: Target, answer: Compilation) -> tuple[bool | None, str]:
    """Whether a program fits a replica's memory, None if unknown, and the compiler's words.

    The compiler refuses what its own limit cannot hold; the datasheet is the second opinion.
    """
    hbm = target.hbm_per_replica
    if answer.outcome == COMPILED and (needed := answer.memory.peak + answer.memory.code) > hbm:
        sizes = in_binary_bytes(needed), in_binary_bytes(hbm)
        return False, "one replica needs {} and has {}".format(*sizes)
    return {COMPILED: True, NO_MEMORY: False}.get(answer.outcome), answer.message
