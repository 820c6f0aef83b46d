"""Preflight: compile a run's steps for real targets and say what would fail there.

Nothing is executed, so numerics, the speed of a target's kernels and of the input pipeline, and
the network stay unseen.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from mlm.accelerators.artefacts import (
    ADVICE,
    ERROR,
    EVALUATION,
    FINETUNING,
    LABEL,
    TILE_SIZES,
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
    NOT_COMPILED,
    Compilation,
    Program,
    compile_for,
    compiler_versions,
)
from mlm.accelerators.roofline import add_times
from mlm.accelerators.verdict_table import largest_in_words
from mlm.config.accelerator import Preflight
from mlm.config.chips import CHIPS
from mlm.config.finetune import Finetune
from mlm.config.pretraining import Pretraining
from mlm.config.targets import generation_of, hosts_of, is_gpu, memory_of_a_replica, replicas_of
from mlm.finetuning.tables import Example, classes_of, read_rows
from mlm.foundations.phrasing import in_binary_bytes, in_exact_time
from mlm.samples.manifests import Manifest

#: Bytes of StableHLO from which a compilation is quick if that is left open: with full effort a
#: base model's (0.8 MB) takes 100 to 130 seconds, a small one's (0.2 MB) a few.
_LARGE_PROGRAM = 400_000
#: Numbers in a model from which it is large as well: a description of its step is not.
_LARGE_MODEL = 30_000_000
UNSEEN = (
    "nothing is executed: numerics and loss curves",
    "the speed of the kernels that a device runs, and of the input pipeline",
    "the network, the storage and the rights of the machine that trains",
)
#: The setting of each step's batch.
_BATCH_KEYS = {
    TRAINING: "pretraining.per_replica_batch_size",
    VALIDATION: "pretraining.per_replica_batch_size",
    EVALUATION: "evaluation.batch_size",
    FINETUNING: "finetune.per_device_batch_size",
}
_TENSORFLOW = (
    "the TensorFlow engine is not compiled for GPUs. With pretraining.engine: jax the preflight "
    "tells whether this run fits"
)


def preflight(
    preflight: Preflight,
    pretraining: Pretraining,
    lowering: Lowering,
    manifest: Manifest,
    programs: dict[str, str],
    evaluation_programs: dict[int, str],
    *,
    state_directory: str,
    gpu_precision: str,
    batches: Batches | None = None,
) -> PreflightVerdict:
    """Compile for every target, and judge.

    `programs` are the files of the steps "training" and "validation", `evaluation_programs` those
    of the evaluation by the number of replicas. Without a program (the step could not be lowered)
    no target is compiled for. The precision on a GPU is `gpu_precision`, that on a TPU the one of
    `lowering`.
    """
    lowered, targets = lowering.step, []
    on_gpus = all(map(is_gpu, preflight.targets))
    findings = [f for f in lowering.findings if not (on_gpus and f.rule == TILE_SIZES)]
    size = Path(programs[TRAINING]).stat().st_size
    quick = is_quick(preflight, size > _LARGE_PROGRAM or (lowered.parameters or 0) > _LARGE_MODEL)
    for name in preflight.targets if size else ():
        step = replace(lowered, precision=gpu_precision) if is_gpu(name) else lowered
        forward = _forward_programs(step, replicas_of(name), programs, evaluation_programs)
        asked = {TRAINING: programs[TRAINING]} | {kind: path for kind, (path, _) in forward.items()}
        if is_gpu(name) and step.engine != "jax":
            found, *others = [Compilation(NOT_COMPILED, _TENSORFLOW)] * len(asked)
        else:
            if is_gpu(name):
                asked = {kind: _for_gpu(path, kind, gpu_precision) for kind, path in asked.items()}
            found, *others = _compiled(name, list(asked.values()), quick)
        target = describe(name, found, step)
        target.largest_batch = batches and batches.targets[name]
        if found.replicas:
            findings += check_data(manifest, step, target, state_directory)
        target.fits, faults = judge(target, found, step)
        findings += faults
        if target.fits and manifest.num_samples >= target.global_batch_size:
            samples, length = manifest.num_samples, manifest.sequence_length
            updates = pretraining.updates(samples, length, target.global_batch_size)
            add_times(target, updates)
            findings += check_bandwidth(target)
        for (kind, (_, rows)), answer in zip(forward.items(), others, strict=True):
            target.forward[kind], faults = judge_forward(target, kind, rows, answer)
            findings += faults
        targets.append(target)
    return _verdict(lowering.run, lowered, quick, preflight, findings, targets)


def _for_gpu(program: str, kind: str, precision: str) -> dict:
    """The description of a step in the file `program`, with the precision that a GPU has."""
    description = json.loads(Path(program).read_text(encoding="utf-8"))
    return description if kind == EVALUATION else description | {"precision": precision}


def preflight_finetuning(
    preflight: Preflight,
    finetune: Finetune,
    pretraining: Lowering,
    examples: str,
    precisions: dict[str, str],
) -> PreflightVerdict:
    """Compile the step of one fold for every target; the verdict, with the figures of one fold.

    `pretraining` has the model, `examples` is the table of the passages, and `precisions` are those
    on a "tpu" and on a "gpu".
    """
    passages = read_rows(examples, Example)
    learned = len(passages) - min(Counter(e.fold for e in passages).values())
    step = Step(
        model_type=pretraining.step.model_type,
        precision=precisions["tpu"],
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
    }
    quick, findings, targets = is_quick(preflight, large=True), [], []
    if program["config"] is None:
        message = "the model could not be built; the preflight of its pretraining says why"
        findings.append(Finding("settings", ERROR, message))
    for name in preflight.targets if program["config"] is not None else ():
        on = replace(step, precision=precisions["gpu" if is_gpu(name) else "tpu"])
        asked = [program | {"precision": on.precision}]
        (found,) = _compiled(name, asked, quick)
        target = describe(name, found, on)
        target.fits, faults = judge(target, found, on, FINETUNING)
        findings += faults
        if target.fits:
            updates = finetune.epochs * -(-learned // target.global_batch_size)
            add_times(target, updates)
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


def _compiled(target: str, programs: Sequence[Program], quick: bool) -> list[Compilation]:
    begun = time.monotonic()
    found = compile_for(target, *programs, quick=quick)
    outcomes = ", ".join(each.outcome for each in found)
    print(f"{target}: {outcomes} after {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return found


def describe(name: str, found: Compilation, step: Step) -> Target:
    """A target as the compiler describes it, with what it counts of the step."""
    target = Target(
        target=name,
        precision=step.precision,
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
        target.global_batch_size = step.batch_on(found.replicas).samples
        target.hbm_per_replica = memory_of_a_replica(name)
    if found.memory:
        # XLA counts a loop's body once. What is outside, the update of the weights, is counted as
        # often here, except for Muon's products: less than 0.1 % of the FLOPs, some of the bytes.
        # The FLOPs of a step in JAX have all of its loops.
        once, times = step.muon_flops or 0, 1 if step.engine == "jax" else accumulated
        target.flops_per_step = (found.flops - once) * times + once
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

    if problem := step.batch_on(target.replicas).unfilled(manifest.num_samples):
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
    return found


def check_bandwidth(target: Target) -> list[Finding]:
    """Advice where a chip's memory, not its arithmetic, is what bounds the time of `target`."""
    found = target.estimate
    if found.bandwidth_seconds <= found.step_seconds[0]:
        return []
    least = in_exact_time(found.bandwidth_seconds * found.steps)
    message = f"by XLA's count, moving the run's data through memory takes {least} at least"
    return [Finding("bandwidth", ADVICE, message, target=target.target)]


def judge(
    target: Target, found: Compilation, step: Step, kind: str = TRAINING
) -> tuple[bool | None, list[Finding]]:
    """Whether the step fits `target`, None if unknown, and what keeps it from compiling or
    fitting."""
    fits, message = _fits(target, found)
    if fits is None:
        severity = WARNING if found.outcome == NOT_COMPILED else ERROR
        return None, [Finding("compiles", severity, message, target=target.target)]
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
    if found.outcome == COMPILED and (needed := found.memory.peak + found.memory.code) > hbm:
        sizes = in_binary_bytes(needed), in_binary_bytes(hbm)
        return False, "one replica needs {} and has {}".format(*sizes)
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
    elif fits is None and found.outcome != NOT_COMPILED:
        findings.append(Finding("compiles", ERROR, text, target=target.target))
    peak = found.memory.peak if found.memory else 0
    return ForwardReport(rows, found.outcome, message, fits, peak), findings


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
