"""Do validation and evaluation fit where the training does?"""

from dataclasses import dataclass
from pathlib import Path

from mlm.accelerators.artefacts import ForwardReport, Lowering
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, Compilation
from mlm.accelerators.findings import ERROR, Finding
from mlm.config.chips import replicas_of

_ADVICE = {
    "validation": "Lower pretraining.per_replica_batch_size",
    "evaluation": "Lower evaluation.batch_size",
}


@dataclass(frozen=True)
class ForwardProgram:
    """The lowered step `name` ("validation" or "evaluation"), of `rows` samples on a replica."""

    name: str
    path: str
    rows: int


def forward_programs(
    target: str, lowering: Lowering, validation: str, evaluation: dict[int, str]
) -> list[ForwardProgram]:
    """The steps beside training's that a run has on `target`, as far as they could be lowered."""
    rows = lowering.forward_rows
    if rows is None:
        return []
    replicas = replicas_of(target)
    programs = [
        ForwardProgram("validation", validation, rows.validation),
        ForwardProgram("evaluation", evaluation[replicas], rows.evaluation[replicas]),
    ]
    return [program for program in programs if Path(program.path).stat().st_size]


def judge_forward(
    target: str, program: ForwardProgram, found: Compilation, hbm: int | None
) -> tuple[ForwardReport, list[Finding]]:
    """The verdict on one step from the compiler's answer; `hbm` is a replica's memory in bytes."""
    step = f"{program.name} of {program.rows} samples a replica"
    findings = []
    fits = {COMPILED: True, NO_MEMORY: False}.get(found.outcome)
    message = found.message
    if fits and hbm is not None and found.peak + found.code > hbm:
        fits = False
        message = f"one replica needs {found.peak + found.code} bytes and has {hbm}"
    if fits is False:
        text = f"{step}: {message}. {_ADVICE[program.name]}"
        findings.append(Finding("fits", ERROR, text, target=target))
    elif fits is None:
        findings.append(Finding("compiles", ERROR, f"{step}: {message}", target=target))
    return ForwardReport(program.rows, found.outcome, message, fits, found.peak), findings
