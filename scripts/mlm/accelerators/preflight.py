"""Preflight: compile a run's steps for real targets and say what would fail there.

Nothing is executed, so numerics, the speed of a target's kernels and of the input pipeline, and
the network stay unseen.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from mlm.accelerators.artefacts import (
    ERROR,
    EVALUATION,
    FINETUNING,
    LABEL,
    TRAINING,
    VALIDATION,
    WARNING,
    Batches,
    Finding,
    ForwardReport,
    Lowering,
    PreflightVerdict,
    Step,
    Target,
    failed,
)
from mlm.accelerators.compiler import (
    COMPILED,
    NO_MEMORY,
    Compilation,
    Program,
    compile_for,
    compiler_versions,
)
from mlm.accelerators.roofline import estimate
from mlm.accelerators.verdict_table import largest_in_words
from mlm.config.accelerator import Preflight
from mlm.config.chips import CHIPS, generation_of, hosts_of, replicas_of
from mlm.config.finetune import Finetune
from mlm.config.pretraining import Pretraining
from mlm.finetuning.tables import Example, classes_of, read_rows
from mlm.samples.manifests import Manifest

#: Bytes of StableHLO from which a compilation is quick if that is left open: with full effort a
#: base model's (0.8 MB) takes 100 to 130 seconds, a small one's (0.2 MB) a few.
_LARGE_PROGRAM = 400_000
#: Numbers in a model from which it is large as well: a description of its step is not.
_LARGE_MODEL = 30_000_000
UNSEEN = (
    "nothing is executed: numerics and loss curves",
    "the speed of the kernels that a production TPU runs, and of the input pipeline",
    "the network, the storage and the rights of the machine that trains",
)
#: The setting of each step's batch.
_BATCH_KEYS = {
    TRAINING: "pretraining.per_replica_batch_size",
    VALIDATION: "pretraining.per_replica_batch_size",
    EVALUATION: "evaluation.batch_size",
    FINETUNING: "finetune.per_device_batch_size",
}
#: As `compile_for`.
Compiler = Callable[..., list[Compilation]]


def preflight(
    preflight: Preflight,
    pretraining: Pretraining,
    lowering: Lowering,
    manifest: Manifest,
    programs: dict[str, str],
    evaluation_programs: dict[int, str],
    *,
    state_directory: str,
    batches: Batches | None = None,
    compiler: Compiler = compile_for,
) -> PreflightVerdict:
    """Compile for every target, and judge.

    `programs` are the files of the steps "training" and "validation", `evaluation_programs` those
    of the evaluation by the number of replicas. Without a program (the step could not be lowered)
    no target is compiled for.
    """
    step, findings, targets = lowering.step, list(lowering.findings), []
    size = Path(programs[TRAINING]).stat().st_size
    quick = is_quick(preflight, size > _LARGE_PROGRAM or (step.parameters or 0) > _LARGE_MODEL)
    for name in preflight.targets if size else ():
        forward = _forward_programs(step, replicas_of(name), programs, evaluation_programs)
        asked = [programs[TRAINING], *(path for path, _ in forward.values())]
        found, *others = _compiled(compiler, name, asked, quick)
        target = describe(name, found, step)
        target.largest_batch = batches and batches.targets[name]
        if found.replicas:
            findings += check_data(manifest, step, target, state_directory)
        target.fits, faults = judge(target, found, step)
        findings += faults
        if target.memory and manifest.num_samples >= target.global_batch_size:
            samples, length = manifest.num_samples, manifest.sequence_length
            add_times(target, pretraining.updates(samples, length, target.global_batch_size))
        for (kind, (_, rows)), answer in zip(forward.items(), others, strict=True):
            target.forward[kind], faults = judge_forward(target, kind, rows, answer)
            findings += faults
        targets.append(target)
    return _verdict(lowering.run, step, quick, preflight, findings, targets)


def preflight_finetuning(
    preflight: Preflight,
    finetune: Finetune,
    pretraining: Lowering,
    examples: str,
    precision: str,
    compiler: Compiler = compile_for,
) -> PreflightVerdict:
    """Compile the step of one fold for every target; the verdict, with the figures of one fold.

    `pretraining` has the model, and `examples` is the table of the passages.
    """
    passages = read_rows(examples, Example)
    learned = len(passages) - min(Counter(e.fold for e in passages).values())
    step = Step(
        model_type=pretraining.step.model_type,
        precision=precision,
        per_replica_batch_size=finetune.per_device_batch_size,
        sequence_length=finetune.max_length,
        outputs=len(classes_of(passages, finetune.task)) or 1,
        examples=learned,
    )
    program = {
        "step": FINETUNING,
        "config": pretraining.model_configuration,
        "section": finetune.model_dump(),
        "outputs": step.outputs,
        "precision": precision,
    }
    quick, findings, targets = is_quick(preflight, large=True), [], []
    if program["config"] is None:
        message = "the model could not be built; the preflight of its pretraining says why"
        findings.append(Finding("settings", ERROR, message))
    for name in preflight.targets if program["config"] is not None else ():
        (found,) = _compiled(compiler, name, [program], quick)
        target = describe(name, found, step)
        target.fits, faults = judge(target, found, step, FINETUNING)
        findings += faults
        if target.memory:
            add_times(target, finetune.epochs * -(-learned // target.global_batch_size))
        targets.append(target)
    run = f"{pretraining.run}, a fold of fine-tuning"
    return _verdict(run, step, quick, preflight, findings, targets)


def _forward_programs(
    step: Step, replicas: int, programs: dict[str, str], evaluation_programs: dict[int, str]
) -> dict[str, tuple[str, int]]:
    """Program and samples of each step without gradients, as far as they could be lowered."""
    if (rows := step.forward_rows) is None:
        return {}
    steps = {
        VALIDATION: (programs[VALIDATION], rows.validation),
        EVALUATION: (evaluation_programs[replicas], rows.evaluation[replicas]),
    }
    return {kind: given for kind, given in steps.items() if Path(given[0]).stat().st_size}


def is_quick(section: Preflight, large: bool) -> bool:
    """Whether a program, large or not, is compiled with the least effort."""
    return section.effort == "quick" or (section.effort == "auto" and large)


def _compiled(
    compiler: Compiler, target: str, programs: Sequence[Program], quick: bool
) -> list[Compilation]:
    begun = time.monotonic()
    found = compiler(target, *programs, quick=quick)
    outcomes = ", ".join(each.outcome for each in found)
    print(f"{target}: {outcomes} after {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return found


def describe(name: str, found: Compilation, step: Step) -> Target:
    """A target as the compiler describes it, with what it counts of the step."""
    target = Target(
        target=name,
        outcome=found.outcome,
        message=found.message,
        replicas=found.replicas,
        chips=found.chips,
        hosts=hosts_of(name, found.hosts) if found.hosts else 0,
        memory=found.memory,
        collectives=found.collectives,
    )
    accumulated = step.gradient_accumulation_steps or 1
    if found.replicas:
        target.global_batch_size = step.per_replica_batch_size * found.replicas * accumulated
        hbm = CHIPS[generation_of(name)].hbm_bytes
        target.hbm_per_replica = hbm * found.chips // found.replicas
    if found.memory:
        # The compiler counts a loop's body once. What is outside of it, the update of the weights,
        # is counted as often here, except for Muon's products: less than 0.1 % of the FLOPs, some
        # of the bytes.
        once = step.muon_flops or 0
        target.flops_per_step = (found.flops - once) * accumulated + once
        if once:
            target.muon_share = once / target.flops_per_step
        target.bytes_accessed = found.bytes_accessed * accumulated
    return target


def check_data(
    manifest: Manifest, step: Step, target: Target, state_directory: str
) -> list[Finding]:
    """What the engine and the train split lack for the replicas and hosts of `target`, which write
    their state to `state_directory`."""
    found = []

    def find(rule: str, message: str, severity: str = ERROR) -> None:
        found.append(Finding(rule, severity, message, target=target.target))

    if manifest.num_samples < target.global_batch_size:
        batch = step.per_replica_batch_size
        largest = manifest.num_samples * batch // target.global_batch_size
        find(
            "full_global_batch",
            f"the train split has {manifest.num_samples} samples; one step of {target.replicas} "
            f"replicas takes {target.global_batch_size}. "
            + (
                f"Lower pretraining.per_replica_batch_size from {batch} to {largest} or less"
                if largest
                else "Not even a batch of 1 is filled: take a smaller slice, or accumulate less"
            ),
        )
    if target.hosts > 1 and step.engine != "jax":
        find(
            "engine_for_hosts",
            f"the target has {target.hosts} hosts, and only JAX trains on several: set "
            "pretraining.engine: jax, or take a target of one host",
        )
    local = any(not shard.path.startswith("gs://") for shard in manifest.shards)
    if target.hosts > 1 and (local or not state_directory.startswith("gs://")):
        find(
            "readable_paths",
            f"{target.hosts} hosts read the shards and write the state, each on its own disk: "
            "put both on gs:// or on a file system that all hosts share",
            WARNING,
        )
    return found


def judge(
    target: Target, found: Compilation, step: Step, kind: str = TRAINING
) -> tuple[bool | None, list[Finding]]:
    """Whether the step fits `target`, None if unknown, and what keeps it from compiling or
    fitting."""
    fits, message = _fits(target, found)
    if fits is None:
        return None, [Finding("compiles", ERROR, message, target=target.target)]
    if fits:
        return True, []
    advice = f"{_BATCH_KEYS[kind]} is {step.per_replica_batch_size}"
    if largest := largest_in_words(target):
        advice += f"; the largest that fits: {largest}"
    else:
        advice += ": lower it" + ("" if step.precision == "bfloat16" else ", or use bfloat16")
        if kind == TRAINING:
            advice += "; preflight.find_batch: true finds the largest that fits"
    message = f"{message.rstrip('.')}. {advice}"
    return False, [Finding("fits", ERROR, message, target=target.target)]


def _fits(target: Target, found: Compilation) -> tuple[bool | None, str]:
    """Whether a program fits a replica's memory, None if unknown, and the compiler's words.

    The compiler refuses what its own limit cannot hold; the datasheet is the second opinion.
    """
    hbm = target.hbm_per_replica
    if hbm and found.memory and (needed := found.memory.peak + found.memory.code) > hbm:
        return False, f"one replica needs {needed} bytes and has {hbm}"
    return {COMPILED: True, NO_MEMORY: False}.get(found.outcome), found.message


def judge_forward(
    target: Target, kind: str, rows: int, found: Compilation
) -> tuple[ForwardReport, list[Finding]]:
    """The verdict on the validation's or the evaluation's step of `rows` samples a replica."""
    fits, message = _fits(target, found)
    text, findings = f"{kind} of {rows} samples a replica: {message}", []
    if fits is False:
        text += f". Lower {_BATCH_KEYS[kind]}"
        findings.append(Finding("fits", ERROR, text, target=target.target))
    elif fits is None:
        findings.append(Finding("compiles", ERROR, text, target=target.target))
    peak = found.memory.peak if found.memory else 0
    return ForwardReport(rows, found.outcome, message, fits, peak), findings


def add_times(target: Target, updates: int) -> None:
    """Add the FLOPs and the estimated times of a run of so many `updates` to `target`."""
    target.flops_per_run = target.flops_per_step * target.replicas * updates
    target.estimate = estimate(
        CHIPS[generation_of(target.target)],
        flops=target.flops_per_step,
        bytes_accessed=target.bytes_accessed,
        replicas=target.replicas,
        chips=target.chips,
        steps=updates,
        collectives=target.collectives,
    )


def _verdict(
    run: str,
    step: Step,
    quick: bool,
    section: Preflight,
    findings: list[Finding],
    targets: list[Target],
) -> PreflightVerdict:
    return PreflightVerdict(
        run=run,
        passed=not failed(findings),
        label=LABEL,
        effort="quick" if quick else "full",
        unseen=list(UNSEEN),
        step=step,
        findings=findings,
        targets=targets,
        chips=[asdict(CHIPS[g]) for g in sorted(set(map(generation_of, section.targets)))],
        packages=compiler_versions(),
    )
