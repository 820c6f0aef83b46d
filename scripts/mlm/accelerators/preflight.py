"""Preflight: compile a run's steps for real targets and say what would fail there.

What it cannot see: nothing is executed, so numerics, the speed of a target's kernels, the input
pipeline's speed and the network stay unseen.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from pathlib import Path

from mlm.accelerators.artefacts import (
    ERROR,
    LABEL,
    WARNING,
    Batches,
    Finding,
    ForwardReport,
    Lowering,
    Memory,
    PreflightVerdict,
    Step,
    Target,
    failed,
)
from mlm.accelerators.compiler import (
    COMPILED,
    HOST_MEMORY,
    NO_MEMORY,
    Compilation,
    Program,
    compile_for,
    compiler_versions,
)
from mlm.accelerators.described_steps import FINETUNING
from mlm.accelerators.roofline import estimate
from mlm.accelerators.table import largest_in_words
from mlm.config.accelerator import Preflight
from mlm.config.chips import CHIPS, generation_of, hosts_of, replicas_of
from mlm.config.finetune import Finetune
from mlm.config.pretraining import Pretraining
from mlm.finetuning.tables import classes_of, read_examples
from mlm.samples.manifests import Manifest

#: Bytes of StableHLO from which compilations run one by one, and quickly if that is left
#: open: a base model's (0.8 MB) takes 100 to 130 seconds and 3 to 6 GB of memory with full
#: effort, a small one's (0.2 MB) seconds and less than 1 GB.
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
    "training": "pretraining.per_replica_batch_size",
    "validation": "pretraining.per_replica_batch_size",
    "evaluation": "evaluation.batch_size",
    "finetuning": "finetune.per_device_batch_size",
}
#: As `compile_for`.
Compiler = Callable[..., list[Compilation]]


def preflight(
    section: Preflight,
    pretraining: Pretraining,
    lowering: Lowering,
    manifest: Manifest,
    programs: dict[str, str],
    evaluation_programs: dict[int, str],
    *,
    state_directory: str,
    batches: Batches | None = None,
    at_once: int = 1,
    compiler: Compiler = compile_for,
) -> PreflightVerdict:
    """Compile for every target, and judge.

    `programs` are the files of the steps "training" and "validation", `evaluation_programs` those
    of the evaluation by the number of replicas. `at_once` compilations run side by side; their
    number changes no byte. Without a program (the step could not be lowered) no target is compiled
    for.
    """
    step, findings, targets = lowering.step, list(lowering.findings), []
    size = Path(programs["training"]).stat().st_size
    large = size > _LARGE_PROGRAM or (step.parameters or 0) > _LARGE_MODEL
    quick = is_quick(section, large)
    if size:
        forward = {
            name: _forward_programs(step, replicas_of(name), programs, evaluation_programs)
            for name in section.targets
        }
        asked = {
            name: [programs["training"], *(path for path, _ in others.values())]
            for name, others in forward.items()
        }
        answers = compile_all(asked, quick, 1 if large else at_once, compiler)
        for name, (found, *others) in answers.items():
            target = describe(name, found, step)
            target.largest_batch = batches and batches.targets[name]
            if found.replicas:
                findings += check_data(manifest, step, target, state_directory)
            findings += judge(target, found, step)
            if target.memory and manifest.num_samples >= target.global_batch_size:
                samples, length = manifest.num_samples, manifest.sequence_length
                updates = pretraining.updates(samples, length, target.global_batch_size)
                add_times(target, found, updates)
            for (kind, (_, count)), answer in zip(forward[name].items(), others, strict=True):
                target.forward[kind], faults = judge_forward(target, kind, count, answer)
                findings += faults
            targets.append(target)
    return _verdict(lowering.run, step, quick, section, findings, targets)


def preflight_finetuning(
    asked: Preflight,
    section: Finetune,
    pretraining: Lowering,
    examples: str,
    precision: str,
    compiler: Compiler = compile_for,
) -> PreflightVerdict:
    """Compile the step of one fold for every target; the verdict, with the figures of one fold.

    `pretraining` has the model, and `examples` is the table of the passages.
    """
    passages = read_examples(examples)
    learned = len(passages) - min(Counter(e.fold for e in passages).values())
    step = Step(
        model_type=pretraining.step.model_type,
        precision=precision,
        per_replica_batch_size=section.per_device_batch_size,
        sequence_length=section.max_length,
        outputs=len(classes_of(passages, section.task)) or 1,
        examples=learned,
    )
    quick, findings, targets = is_quick(asked, large=True), [], []
    if pretraining.model_configuration is None:
        message = "the model could not be built; the preflight of its pretraining says why"
        findings.append(Finding("settings", ERROR, message))
    else:
        program = {
            "step": FINETUNING,
            "config": pretraining.model_configuration,
            "section": section.model_dump(),
            "outputs": step.outputs,
            "precision": precision,
        }
        answers = compile_all({key: [program] for key in asked.targets}, quick, 1, compiler)
        for name, (found,) in answers.items():
            target = describe(name, found, step)
            findings += judge(target, found, step, FINETUNING)
            if target.memory:
                add_times(target, found, section.epochs * -(-learned // target.global_batch_size))
            targets.append(target)
    run = f"{pretraining.run}, a fold of fine-tuning"
    return _verdict(run, step, quick, asked, findings, targets)


def _forward_programs(
    step: Step, replicas: int, programs: dict[str, str], evaluation_programs: dict[int, str]
) -> dict[str, tuple[str, int]]:
    """Program and samples of each step without gradients, as far as they could be lowered."""
    if (rows := step.forward_rows) is None:
        return {}
    steps = {
        "validation": (programs["validation"], rows.validation),
        "evaluation": (evaluation_programs[replicas], rows.evaluation[replicas]),
    }
    return {kind: given for kind, given in steps.items() if Path(given[0]).stat().st_size}


def is_quick(section: Preflight, large: bool) -> bool:
    """Whether a program, large or not, is compiled with the least effort."""
    return section.effort == "quick" or (section.effort == "auto" and large)


def compile_all(
    programs: dict[str, Sequence[Program]], quick: bool, at_once: int, compiler: Compiler
) -> dict[str, list[Compilation]]:
    """The compiler's answers for the programs of every target, reported as they come."""

    def compiled(target: str) -> list[Compilation]:
        begun = time.monotonic()
        found = compiler(target, *programs[target], quick=quick)
        print(
            f"{target}: {', '.join(p.outcome for p in found)} after "
            f"{time.monotonic() - begun:.0f} s, "
            f"{sum(p.processor_seconds for p in found):.0f} s of a processor, "
            f"{max(p.host_memory for p in found) / 2**30:.1f} GiB of this machine's memory",
            file=sys.stderr,
        )
        return found

    print(f"Compiling for {', '.join(programs)}", file=sys.stderr)
    with ThreadPoolExecutor(at_once) as pool:
        answers = dict(zip(programs, pool.map(compiled, programs), strict=True))
    for target, found in answers.items():
        # What found no room beside the others may find it alone.
        if at_once > 1 and HOST_MEMORY in [p.outcome for p in found]:
            answers[target] = compiled(target)
    return answers


def describe(name: str, found: Compilation, step: Step) -> Target:
    """A target as the compiler describes it."""
    target = Target(
        target=name,
        outcome=found.outcome,
        message=found.message,
        replicas=found.replicas,
        chips=found.chips,
        hosts=hosts_of(name, found.hosts) if found.hosts else 0,
        collectives=found.collectives,
    )
    if found.replicas:
        accumulated = step.gradient_accumulation_steps or 1
        target.global_batch_size = step.per_replica_batch_size * found.replicas * accumulated
        hbm = CHIPS[generation_of(name)].hbm_bytes
        target.hbm_per_replica = hbm * found.chips // found.replicas
    return target


def check_data(
    manifest: Manifest, step: Step, target: Target, state_directory: str
) -> list[Finding]:
    """What the train split lacks for the replicas and hosts of `target`, which write their state to
    `state_directory`."""
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
    # TensorFlow gives each worker shards of its own.
    if step.engine != "jax" and len(manifest.shards) < target.hosts:
        find(
            "shards_for_workers",
            f"the train split has {len(manifest.shards)} shards for {target.hosts} input workers "
            f"(hosts); raise shards.count.train to {target.hosts} or more",
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


def judge(target: Target, found: Compilation, step: Step, kind: str = "training") -> list[Finding]:
    """Whether the step compiles and fits; its memory and FLOPs are added to `target`."""
    target.fits, message = _fits(target, found)
    if target.fits is None:
        return [Finding("compiles", ERROR, message, target=target.target)]
    if found.outcome == COMPILED:
        target.memory = Memory(**{f.name: getattr(found, f.name) for f in fields(Memory)})
        # The compiler counts a loop's body once. What is outside of it, the update of the weights,
        # is counted as often here, except for Muon's products: less than 0.1 % of the FLOPs, some
        # of the bytes.
        accumulated, once = step.gradient_accumulation_steps or 1, step.muon_flops or 0
        target.flops_per_step = (found.flops - once) * accumulated + once
        if once:
            target.muon_share = once / target.flops_per_step
        target.bytes_accessed = found.bytes_accessed * accumulated
    if target.fits:
        return []
    advice = f"{_BATCH_KEYS[kind]} is {step.per_replica_batch_size}"
    if largest := largest_in_words(target):
        advice += f"; the largest that fits: {largest}"
    else:
        advice += ": lower it" + ("" if step.precision == "bfloat16" else ", or use bfloat16")
        if kind == "training":
            advice += "; preflight.find_batch: true finds the largest that fits"
    return [Finding("fits", ERROR, f"{message.rstrip('.')}. {advice}", target=target.target)]


def _fits(target: Target, found: Compilation) -> tuple[bool | None, str]:
    """Whether a program fits a replica's memory, None if unknown, and the compiler's words.

    The compiler refuses what its own limit cannot hold; the datasheet is the second opinion.
    """
    needed, hbm = found.peak + found.code, target.hbm_per_replica
    if found.outcome == COMPILED and hbm is not None and needed > hbm:
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
    return ForwardReport(rows, found.outcome, message, fits, found.peak), findings


def add_times(target: Target, found: Compilation, updates: int) -> None:
    """Add the FLOPs and the estimated times of a run of so many `updates` to `target`."""
    target.flops_per_run = target.flops_per_step * found.replicas * updates
    target.estimate = estimate(
        CHIPS[generation_of(target.target)],
        flops=target.flops_per_step,
        bytes_accessed=target.bytes_accessed,
        replicas=found.replicas,
        chips=found.chips,
        steps=updates,
        collectives=found.collectives,
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
