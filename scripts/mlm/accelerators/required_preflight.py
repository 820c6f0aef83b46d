"""A preflight that must have passed before a TPU trains that `accelerator.kind: auto` found: that
is known only on the machine that trains."""

from pathlib import Path

from mlm.accelerators.artefacts import PreflightVerdict
from mlm.foundations.errors import MlmError


def require_passed(report: str, run: str, step: dict) -> None:
    """Raise MlmError unless the preflight.json `report` says that `run` passed with `step`: what
    shapes the step that is to be trained, by the names in that file."""
    if fault := _reason_to_wait(report, step):
        raise MlmError(
            f"{run}: accelerator.kind: auto chose this machine's TPU, and preflight.required asks "
            f"for a passed preflight before a TPU trains: {fault}. Make it with 'snakemake --cores "
            f"2 results/runs/{run}/preflight/passed.txt' (on any machine with Linux on x86-64 and "
            "envs/requirements-preflight.txt), or set preflight.required: false"
        )


def _reason_to_wait(report: str, step: dict) -> str | None:
    if not Path(report).exists():
        return f"{report} does not exist"
    found = PreflightVerdict.read(report)
    if not found.passed:
        return f"{report} says that it failed"
    for name, value in step.items():
        if (told := getattr(found.step, name)) != value:
            return f"{report} was made for {name} {told}, and this training has {value}"
    return None
