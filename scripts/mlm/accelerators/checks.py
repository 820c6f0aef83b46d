"""Preflight: compile a run's step for real TPU targets and say what would fail there.

What it cannot see: nothing is executed, so numerics, the speed of TPU kernels, the input
pipeline's speed and the network stay unseen.
"""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from mlm.accelerators.artefacts import (
    Batches,
    Lowering,
    Memory,
    PreflightVerdict,
    RuleVerdict,
    RunEstimate,
    Searches,
    Step,
    Target,
)
from mlm.accelerators.compiler import (
    COMPILED,
    HOST_MEMORY,
    NO_MEMORY,
    Compilation,
    compiler_versions,
)
from mlm.accelerators.data_readiness import Reach, check_data
from mlm.accelerators.described_steps import compile_step
from mlm.accelerators.findings import ADVICE, ERROR, RULES, WARNING, Finding, failed
from mlm.accelerators.forward_checks import forward_programs, judge_forward
from mlm.accelerators.roofline import LABEL, estimate
from mlm.config.accelerator import Preflight
from mlm.config.chips import CHIPS, ChipFacts, generation_of, hosts_of
from mlm.config.pretraining import Pretraining
from mlm.samples.manifests import Manifest

#: Bytes of StableHLO from which compilations run one by one, and quickly where that is left
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


#: The lowest and the highest share of a chip's peak that estimates of time assume.
UTILISATION = (0.2, 0.6)


def is_quick(section: Preflight, large: bool) -> bool:
    """Whether a program, large or not, is compiled with the least effort."""
    return section.effort == "quick" or (section.effort == "auto" and large)


@dataclass
class TargetReport(Target):
    """What preflight says of one target, with what it finds there."""

    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class Load:
    """What one update asks of a target: samples on one replica, and batches accumulated.

    `steps_for` gives the run's updates for a global batch size; `muon_flops` as in `Step`.
    `batch_key` is the setting of the batch, and `precision` that of the products.
    """

    per_replica_batch_size: int
    gradient_accumulation_steps: int
    steps_for: Callable[[int], int]
    muon_flops: int | None = None
    batch_key: str = "pretraining.per_replica_batch_size"
    precision: str = "bfloat16"


def report_on(
    target: str,
    found: Compilation,
    load: Load,
    check: Callable[[TargetReport], list[Finding]] = lambda report: [],
    largest: Searches | None = None,
) -> TargetReport:
    """The verdict on one target from the compiler's answer.

    `check` looks at the data, once the target's replicas and hosts are known. `largest` are the
    largest batches that fit, where they were searched.
    """
    report = TargetReport(
        target=target,
        outcome=found.outcome,
        message=found.message,
        replicas=found.replicas,
        chips=found.chips,
        hosts=hosts_of(target, found.hosts) if found.hosts else 0,
        collectives=found.collectives,
        largest_batch=largest,
    )
    facts = CHIPS[generation_of(target)]
    if found.replicas:
        report.global_batch_size = (
            load.per_replica_batch_size * found.replicas * load.gradient_accumulation_steps
        )
        report.findings += check(report)
        report.hbm_per_replica = facts.hbm_bytes * found.chips // found.replicas
    if found.outcome == NO_MEMORY:
        report.fits = False
        report.findings.append(_too_large(report, found.message, load))
    elif found.outcome != COMPILED:
        report.findings.append(Finding("compiles", ERROR, found.message, target=target))
    else:
        _add_figures(report, found, facts, load)
    return report


def _too_large(report: TargetReport, message: str, load: Load) -> Finding:
    searches = {kind: found for kind, found in (report.largest_batch or {}).items() if found}
    asked = f"{load.batch_key} is {load.per_replica_batch_size}"
    if searches:
        fits = ", ".join(
            f"{kind} {found.largest or 'none'}" for kind, found in sorted(searches.items())
        )
        advice = f"{asked}; the largest that fits: {fits}"
    else:
        half = "" if load.precision == "bfloat16" else ", or use bfloat16"
        advice = f"{asked}: lower it{half}"
        if load.batch_key == Load.batch_key:
            advice += "; preflight.find_batch: true finds the largest that fits"
    return Finding("fits", ERROR, f"{message.rstrip('.')}. {advice}", target=report.target)


def _add_figures(report, found: Compilation, facts: ChipFacts, load: Load) -> None:
    report.memory = Memory(**{f.name: getattr(found, f.name) for f in fields(Memory)})
    # The compiler refuses what its own limit cannot hold; the datasheet is the second opinion.
    needed = found.peak + found.code
    report.fits = needed <= report.hbm_per_replica
    if not report.fits:
        report.findings.append(
            _too_large(
                report,
                f"one replica needs {needed} bytes and has {report.hbm_per_replica}",
                load,
            )
        )
    # The compiler counts a loop's body once. What is outside of it, the update of the weights,
    # is counted as often here, but for Muon's products: less than 0.1 % of the FLOPs, some of the
    # bytes.
    once = load.muon_flops or 0
    report.flops_per_step = (found.flops - once) * load.gradient_accumulation_steps + once
    if once:
        report.muon_share = once / report.flops_per_step
    report.bytes_accessed = found.bytes_accessed * load.gradient_accumulation_steps
    if any(f.rule == "full_global_batch" for f in report.findings):
        return
    steps = load.steps_for(report.global_batch_size)
    report.flops_per_run = report.flops_per_step * found.replicas * steps
    seconds = estimate(
        facts,
        flops=report.flops_per_step,
        bytes_accessed=report.bytes_accessed,
        replicas=found.replicas,
        chips=found.chips,
        steps=steps,
        utilisation=UTILISATION,
        collectives=found.collectives,
    )
    report.estimate = RunEstimate(
        **asdict(seconds), steps=steps, utilisation=UTILISATION, label=LABEL
    )


@dataclass(frozen=True)
class PreflightFiles:
    """What a preflight reads; `batches` is None where none were searched.

    `evaluation` has a program for each number of replicas.
    """

    program: str
    lowering: str
    manifest: str
    validation: str = ""
    evaluation: dict[int, str] = field(default_factory=dict)
    batches: str | None = None


def preflight(
    section: Preflight,
    files: PreflightFiles,
    reach: Reach,
    pretraining: Pretraining,
    compiler: Callable[..., Compilation] = compile_step,
    at_once: int = 1,
) -> PreflightVerdict:
    """Compile for every target, and judge.

    `at_once` compilations run side by side; their number changes no byte. A target that fails
    takes nothing from the others. Without a program (the step could not be lowered) no target
    is compiled for.
    """
    lowering, manifest = Lowering.read(files.lowering), Manifest.read(files.manifest)
    findings = lowering.findings
    batches = Batches.read(files.batches).targets if files.batches else {}

    def steps_for(global_batch: int) -> int:
        samples, length = manifest.num_samples, manifest.sequence_length
        return pretraining.updates(samples, length, global_batch)

    def check(report: TargetReport) -> list[Finding]:
        return check_data(
            manifest,
            reach,
            lowering.engine,
            target=report.target,
            replicas=report.replicas,
            hosts=report.hosts,
            batch=lowering.per_replica_batch_size,
            accumulated=lowering.gradient_accumulation_steps,
        )

    reports = []
    size = Path(files.program).stat().st_size
    large = size > _LARGE_PROGRAM or (lowering.parameters or 0) > _LARGE_MODEL
    quick = is_quick(section, large)
    if size:
        if large:
            at_once = 1
        load = Load(
            lowering.per_replica_batch_size,
            lowering.gradient_accumulation_steps,
            steps_for,
            lowering.muon_flops,
            precision=lowering.precision,
        )
        forward = {
            target: forward_programs(target, lowering, files.validation, files.evaluation)
            for target in section.targets
        }

        def compiled(target: str) -> Compilation:
            others = [program.path for program in forward[target]]
            return compiler(
                target,
                program=files.program,
                quick=quick,
                others=others,
                # Of the steps without gradients only the memory is asked.
                others_quick=section.effort != "full",
            )

        answers = compile_all(section.targets, compiled, at_once)
        for target, found in zip(section.targets, answers, strict=True):
            report = report_on(target, found, load, check, batches.get(target))
            for program, other in zip(forward[target], found.others, strict=True):
                said, faults = judge_forward(target, program, other, report.hbm_per_replica)
                report.forward[program.name] = said
                report.findings += faults
            reports.append(report)
    findings += [f for r in reports for f in r.findings]
    rules = _verdicts(findings, _unasked(lowering, compiled=bool(reports)))
    return verdict_on(lowering.run, lowering.step, quick, section.targets, findings, reports, rules)


def verdict_on(
    run: str,
    step: Step,
    quick: bool,
    targets: Sequence[str],
    findings: list[Finding],
    reports: list[TargetReport],
    rules: list[RuleVerdict],
) -> PreflightVerdict:
    """All that is said of one step; `findings` are those of its targets as well."""
    return PreflightVerdict(
        run=run,
        passed=not failed(findings),
        label=LABEL,
        effort="quick" if quick else "full",
        unseen=list(UNSEEN),
        step=step,
        rules=rules,
        findings=findings,
        targets=[Target(**{f.name: getattr(r, f.name) for f in fields(Target)}) for r in reports],
        chips=[asdict(CHIPS[g]) for g in sorted({generation_of(t) for t in targets})],
        packages=compiler_versions(),
    )


def compile_all(
    targets: Sequence[str], compiler: Callable[[str], Compilation], at_once: int
) -> list[Compilation]:
    """The compiler's answers in the order of `targets`, told as they come."""

    def compiled(target: str) -> Compilation:
        begun = time.monotonic()
        found = compiler(target)
        seconds = time.monotonic() - begun
        programs = (found, *found.others)
        print(
            f"{target}: {', '.join(p.outcome for p in programs)} after {seconds:.0f} s, "
            f"{sum(p.processor_seconds for p in programs):.0f} s of a processor, "
            f"{max(p.host_memory for p in programs) / 2**30:.1f} GiB of this machine's memory",
            file=sys.stderr,
        )
        return found

    print(f"Compiling for {', '.join(targets)}", file=sys.stderr)
    with ThreadPoolExecutor(at_once) as pool:
        answers = list(pool.map(compiled, targets))
    # What did not find room beside the others may find it alone.
    return [
        compiled(target)
        if at_once > 1 and HOST_MEMORY in (p.outcome for p in (answer, *answer.others))
        else answer
        for target, answer in zip(targets, answers, strict=True)
    ]


_OF_THE_STEP = (
    "static_control_flow",
    "static_shapes",
    "known_gather_sizes",
    "no_float64",
    "no_host_ops",
    "lowers_to_xla",
    "tile_sizes",
)
_OF_THE_DATA = ("one_compilation", "position_restorable")
_OF_A_TARGET = (
    "compiles",
    "fits",
    "full_global_batch",
    "shards_for_workers",
    "readable_paths",
)


def _unasked(lowering: Lowering, compiled: bool) -> set[str]:
    """The rules that could not be asked, since a step before them failed."""
    rules = set() if compiled else set(_OF_A_TARGET)
    if lowering.engine == "jax":
        # Shapes are fixed by the engine; the compiler says the rest. A process reads the samples
        # of its own devices by their number, whatever shards they are in.
        rules |= {*_OF_THE_STEP, *_OF_THE_DATA, "shards_for_workers"} - {"tile_sizes"}
    if lowering.parameters is None:
        rules |= {*_OF_THE_STEP, *_OF_THE_DATA}
    elif lowering.survey is None:
        rules |= {*_OF_THE_DATA}
    return rules


def _verdicts(findings: list[Finding], unasked: set[str]) -> list[RuleVerdict]:
    """For every rule what it asks and whether it is kept, broken, or advised on."""
    ranks = (ADVICE, WARNING, ERROR)
    worst: dict[str, str] = {}
    for finding in findings:
        worst[finding.rule] = max(
            worst.get(finding.rule, ADVICE), finding.severity, key=ranks.index
        )
    return [
        RuleVerdict(name, asks, worst.get(name, "not asked" if name in unasked else "kept"))
        for name, asks in RULES.items()
    ]
