"""Preflight: compile a run's train steps for real targets and say what would fail there.

Nothing is executed, so numerics, the speed of a target's kernels and of the input pipeline, and
the network stay unseen.
"""

import itertools
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlm.config.chips import chip_of, hosts_of, number_of_chips
from mlm.config.pretraining import RunConfiguration, engine_for
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import in_binary_bytes
from mlm.preflight.artefacts import Finding, PreflightVerdict, Target
from mlm.preflight.compiler import COMPILED, NO_MEMORY, Compilation, compile_for, compiler_versions
from mlm.preflight.steps_and_flops import described_train_step, unmade_data
from mlm.training.length_and_phases import updates_of
from mlm.training.resolved_run import Run, RunFiles, read_manifests, run_of

#: The share of a chip's peak that is assumed: that of Ettin's encoder of 150 million parameters in
#: bfloat16 on H100s, derived from its hours (Weller et al., 2025, arXiv 2507.11412).
UTILISATION = 0.27
_TIME = (
    f"Times are at {100 * UTILISATION:.0f} % of the datasheet's peak, which Ettin's encoder of 150 "
    "million parameters reached on H100s"
)
_TENSORFLOW = (
    "What is compiled is the JAX engine's program for this run; TensorFlow's own step is not "
    "compiled for TPUs and GPUs"
)


def preflight(
    names: Sequence[str], config: RunConfiguration, data: RunFiles | int
) -> PreflightVerdict:
    """Compile the train steps of a run for the targets `names`, and judge. `data` is that of the
    run, or the number of ids in its vocabulary. A fault of the settings is a verdict, too."""
    findings: list[Finding] = []
    targets: list[Target] = []
    notes = [_TIME]
    if config.engine == "tensorflow":
        notes.append(_TENSORFLOW)
    if isinstance(data, int):
        notes.append(f"No data is made yet: the vocabulary is taken to have {data:,} ids")
    try:
        run = _run(config, data)
    except MlmError as error:
        findings.append(Finding("settings", str(error)))
    else:
        for name in names:
            how = run, config.accelerator, name
            steps = [described_train_step(*how, phase) for phase in run.phases]
            begun = time.monotonic()
            answers = compile_for(name, *steps)
            print(f"{name}: answered after {time.monotonic() - begun:.0f} s", file=sys.stderr)
            target, faults = _judged(name, run, steps, answers)
            findings += faults
            if target.fits and not faults:
                batch = config.pretraining.batch_on(target.replicas).samples
                sizes = run.train.num_samples, config.sequence_length, batch
                updates = updates_of(config.pretraining, *sizes)
                if problem := config.pretraining.without_step(updates):
                    findings.append(Finding("settings", f"pretraining.{problem}", name))
                ends = config.pretraining.ends(updates)
                of_phases = zip(itertools.pairwise([0, *ends]), answers, strict=True)
                flops = sum((b - a) * (answer.flops or 0.0) for (a, b), answer in of_phases)
                _add_time(target, flops)
            targets.append(target)
    return PreflightVerdict(
        run=config.name,
        passed=not findings,
        notes=notes,
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
    name: str, run: Run, steps: Sequence[Mapping[str, Any]], answers: Sequence[Compilation]
) -> tuple[Target, list[Finding]]:
    """Return what the compiler's `answers` to the described `steps` of `run`, one for each phase,
    say of the target `name`, and its faults: those of the step with the most memory."""
    phases = run.pretraining.in_phases(run.train.sequence_length)
    batches = [run.pretraining.batch_on(number_of_chips(name), phase) for phase in phases]
    of_phases = zip(batches, steps, answers, strict=True)
    on_target, step, answer = max(of_phases, key=lambda one: _needed(one[2]))
    target = Target(
        target=name,
        outcome=answer.outcome,
        message=answer.message,
        precision=step["precision"],
        replicas=number_of_chips(name),
        hosts=hosts_of(name),
        hbm_per_replica=chip_of(name).usable_bytes,
        global_batch_size=on_target.samples,
        memory=answer.memory,
        flops_per_step=answer.flops or None,
    )
    findings = []
    for batch, phase in zip(batches, run.phases, strict=True):
        if problem := batch.unfilled(phase.train.num_samples):
            findings.append(Finding("full_global_batch", problem, name))
    if target.hosts > 1 and engine_for(run.pretraining.engine) != "jax":
        problem = (
            f"the target has {target.hosts} hosts, and only JAX trains on several: set "
            "pretraining.engine: jax, or take a target of one host"
        )
        findings.append(Finding("engine_for_hosts", problem, name))
    target.fits, words = _fits(target, answer)
    message = f"training of {on_target.per_replica} samples a replica: {words.rstrip('.')}"
    if target.fits is None:
        findings.append(Finding("compiles", message, name))
    elif not target.fits:
        remedy = f"lower {on_target.key}"
        if target.precision != "bfloat16":
            remedy += ", or use accelerator.precision: bfloat16"
        findings.append(Finding("fits", f"{message}. To mend it, {remedy}", name))
    return target, findings


def _add_time(target: Target, flops: float) -> None:
    """Add the estimated time of a run of so many `flops` to `target`."""
    rate = UTILISATION * chip_of(target.target).peak_flops(target.precision)
    target.run_seconds = float(f"{flops / rate:.4g}")


def _needed(answer: Compilation) -> float:
    """Return the bytes that a step needs; infinite if it was not compiled."""
    return answer.memory.peak + answer.memory.code if answer.memory else math.inf


def _fits(target: Target, answer: Compilation) -> tuple[bool | None, str]:
    """Return whether a program fits a replica's memory, None if unknown, and the compiler's words.

    A TPU's compiler refuses what its own limit cannot hold; a GPU's does not know what else takes
    memory. The datasheet is the other opinion.
    """
    if answer.outcome == COMPILED and (needed := _needed(answer)) > target.hbm_per_replica:
        has = in_binary_bytes(target.hbm_per_replica)
        return False, f"one replica needs {in_binary_bytes(needed)} and has {has}"
    return {COMPILED: True, NO_MEMORY: False}.get(answer.outcome), answer.message
