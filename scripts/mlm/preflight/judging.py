"""Preflight: compile a run's steps for real targets and say what would fail there.

Nothing is executed, so numerics, the speed of a target's kernels and of the input pipeline, and
the network stay unseen.
"""

import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlm.config.chips import hosts_of, memory_of_a_replica, number_of_chips
from mlm.config.evaluation import Evaluation
from mlm.config.pretraining import GlobalBatch, RunConfiguration, engine_for
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import in_binary_bytes
from mlm.model.architecture import Architecture, parameter_shapes
from mlm.preflight.artefacts import (
    EVALUATION,
    LABEL,
    TRAINING,
    VALIDATION,
    Finding,
    ForwardReport,
    PreflightVerdict,
    Target,
)
from mlm.preflight.compiler import COMPILED, NO_MEMORY, Compilation, compile_for, compiler_versions
from mlm.preflight.costs import UTILISATION, add_times
from mlm.preflight.described_steps import described_steps, unmade_data
from mlm.training.run import Run, RunFiles, read_manifests, run_of

#: Numbers in a model from which a compilation is quick: with full effort a base model takes 100 to
#: 130 seconds, a small one a few.
_LARGE_MODEL = 30_000_000
_TIME = (
    f"Times are at {100 * UTILISATION:.0f} % of the datasheet's peak, which Ettin's encoder of 150 "
    "million parameters reached on H100s; 'from … on': the memory's bandwidth allows no such speed"
)
_TENSORFLOW = (
    "What is compiled is the JAX engine's program for this run; TensorFlow's own step is not "
    "compiled for TPUs and GPUs"
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
    data: RunFiles | int,
    evaluation: Evaluation,
) -> PreflightVerdict:
    """Compile the steps of a run for the targets `names`, and judge. `data` is that of the run, or
    the number of ids in its vocabulary. A fault of the settings is a verdict, too."""
    findings: list[Finding] = []
    targets: list[Target] = []
    notes, quick = [_TIME], False
    if config.engine == "tensorflow":
        notes.append(_TENSORFLOW)
    if isinstance(data, int):
        notes.append(f"No data is made yet: the vocabulary is taken to have {data:,} ids")
    try:
        run = _run(config, data)
    except MlmError as error:
        findings.append(Finding("settings", str(error)))
    else:
        architecture = Architecture.of(run.model_config.to_dict())
        quick = sum(map(math.prod, parameter_shapes(architecture).values())) > _LARGE_MODEL
        for name in names:
            steps = described_steps(run, config.accelerator, name, evaluation)
            begun = time.monotonic()
            answers = dict(zip(steps, compile_for(name, *steps.values(), quick=quick), strict=True))
            print(f"{name}: answered after {time.monotonic() - begun:.0f} s", file=sys.stderr)
            target, faults = _judged(name, run, steps, answers)
            findings += faults
            if target.fits and not faults:
                batch = config.pretraining.batch_on(target.replicas).samples
                sizes = run.train.num_samples, config.sequence_length, batch
                add_times(target, config.pretraining.updates(*sizes))
            targets.append(target)
    return PreflightVerdict(
        run=config.name,
        passed=not findings,
        label=LABEL,
        effort="quick" if quick else "full",
        notes=notes,
        engine=config.engine,
        findings=findings,
        targets=targets,
        packages=compiler_versions(),
    )


def _run(config: RunConfiguration, data: RunFiles | int) -> Run:
    """Return the run on one replica."""
    if isinstance(data, RunFiles):
        return run_of(config, data, read_manifests(data, config.sequence_length), replicas=1)
    with tempfile.TemporaryDirectory() as directory:
        unmade = unmade_data(data, config.sequence_length, Path(directory))
        return run_of(config, *unmade, replicas=1)


def _judged(
    name: str,
    run: Run,
    steps: Mapping[str, Mapping[str, Any]],
    answers: Mapping[str, Compilation],
) -> tuple[Target, list[Finding]]:
    """Return what the compiler's `answers` to the described `steps` of `run` say of the target
    `name`, and its faults. Of several phases, the train step is that with the most memory."""
    trained = list(steps)[: len(run.phases)]
    largest = max(trained, key=lambda kind: _needed(answers[kind]))
    train = run.phases[trained.index(largest)].train
    accumulated, replicas = run.optimizer.gradient_accumulation_steps, number_of_chips(name)
    answer, batch = answers[largest], steps[largest]["samples"] // accumulated
    on_target = GlobalBatch(batch, replicas, accumulated)
    target = Target(
        target=name,
        outcome=answer.outcome,
        message=answer.message,
        precision=steps[largest]["precision"],
        replicas=replicas,
        hosts=hosts_of(name),
        hbm_per_replica=memory_of_a_replica(name),
        global_batch_size=on_target.samples,
        memory=answer.memory,
    )
    if answer.memory:
        target.flops_per_step = answer.flops
        # XLA counts a loop's body once. What is outside, the update, is counted as often here.
        target.bytes_accessed = answer.bytes_accessed * accumulated
    findings = []
    if problem := on_target.unfilled(train.num_samples):
        findings.append(Finding("full_global_batch", problem, name))
    if target.hosts > 1 and engine_for(run.pretraining.engine) != "jax":
        problem = (
            f"the target has {target.hosts} hosts, and only JAX trains on several: set "
            "pretraining.engine: jax, or take a target of one host"
        )
        findings.append(Finding("engine_for_hosts", problem, name))
    for kind in (largest, VALIDATION, EVALUATION):
        answer, rows = answers[kind], batch if kind == largest else steps[kind]["samples"]
        fits, message = _fits(target, answer)
        if kind == largest:
            kind, target.fits = TRAINING, fits
        else:
            peak = answer.memory.peak if answer.memory else 0
            target.forward[kind] = ForwardReport(rows, answer.outcome, fits, peak)
        # What stopped the train step, such as an unknown target, is said once.
        if fits or (kind != TRAINING and target.fits is fits is None):
            continue
        message = f"{kind} of {rows} samples a replica: {message.rstrip('.')}"
        if fits is None:
            findings.append(Finding("compiles", message, name))
            continue
        remedy = f"lower {_BATCH_KEYS[kind]}"
        if kind == TRAINING and target.precision != "bfloat16":
            remedy += ", or use accelerator.precision: bfloat16"
        findings.append(Finding("fits", f"{message}. To mend it, {remedy}", name))
    return target, findings


def _needed(answer: Compilation) -> float:
    """Return the bytes that a step needs; infinite if it was not compiled."""
    return answer.memory.peak + answer.memory.code if answer.memory else math.inf


def _fits(target: Target, answer: Compilation) -> tuple[bool | None, str]:
    """Return whether a program fits a replica's memory, None if unknown, and the compiler's words.

    The compiler refuses what its own limit cannot hold; the datasheet is the second opinion.
    """
    if answer.outcome == COMPILED and (needed := _needed(answer)) > target.hbm_per_replica:
        has = in_binary_bytes(target.hbm_per_replica)
        return False, f"one replica needs {in_binary_bytes(needed)} and has {has}"
    return {COMPILED: True, NO_MEMORY: False}.get(answer.outcome), answer.message
