"""The contents of preflight.json, and its table; imports nothing of the compiler."""

from dataclasses import dataclass

from mlm.foundations.artefacts import Artefact
from mlm.foundations.atomic import write_text
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.terminal import answer, columns, in_binary_bytes, in_time

#: Of the columns of `row`.
HEADINGS = (
    *("target", "verdict", "replicas", "precision", "peak memory", "available", "FLOPs/step"),
    "time of the run",
)
LABEL = "compiler and datasheet estimate, not measured"


@dataclass(frozen=True)
class Finding:
    """A problem that stops the run; on one target if it names it."""

    rule: str
    message: str
    target: str = ""

    def __str__(self) -> str:
        return f"{self.target}: {self.message}" if self.target else self.message


@dataclass(frozen=True)
class Memory:
    """Bytes of one replica, by XLA's memory analysis.

    `peak` is the most that is alive at any time, without the program's `code` and with buffers in
    the core's own memory (128 MiB on a v5e), on a GPU with all temporaries, which are one
    allocation; `allocated` is all that is set aside.
    """

    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    code: int
    peak: int
    allocated: int


@dataclass
class Target:
    """Preflight's answer for one target; None: unknown."""

    target: str
    outcome: str
    message: str
    precision: str
    replicas: int
    hosts: int
    hbm_per_replica: int
    global_batch_size: int
    fits: bool | None = None
    memory: Memory | None = None
    flops_per_step: float | None = None
    run_seconds: float | None = None


@dataclass(frozen=True)
class PreflightVerdict(Artefact):
    """The verdict on a run's train steps, with `notes` on its figures."""

    run: str
    passed: bool
    notes: list[str]
    findings: list[Finding]
    targets: list[Target]
    packages: dict[str, str]


def _size(number: int | None) -> str:
    return "?" if number is None else in_binary_bytes(number)


def table(report: PreflightVerdict) -> str:
    """Return all targets of one preflight.json, its notes and its findings, as text."""
    lines = [
        f"Preflight of {report.run} ({LABEL})",
        columns(cells(report)),
        *(f"  {note}" for note in report.notes),
        *(f"  {finding}" for finding in report.findings),
        f"{report.run}: {'passed' if report.passed else 'FAILED'}",
    ]
    return "\n".join(lines)


def cells(report: PreflightVerdict) -> list[tuple[str, ...]]:
    """Return HEADINGS and the `row` of every target."""
    return [HEADINGS, *map(row, report.targets)]


def row(target: Target) -> tuple[str, ...]:
    """Return one target of preflight.json, as text in the order of HEADINGS."""
    verdict = {True: "fits", False: "does not fit", None: target.outcome.replace("_", " ")}
    return (
        target.target,
        verdict[target.fits],
        str(target.replicas),
        target.precision,
        _size(target.memory and target.memory.peak),
        _size(target.hbm_per_replica),
        f"{target.flops_per_step:.3g}" if target.flops_per_step else "?",
        "?" if target.run_seconds is None else in_time(target.run_seconds),
    )


def show_and_require(reports: list[str], passed: str) -> None:
    """Print every preflight.json of `reports` as a `table`, and write the tables to `passed`.

    If one did not pass, nothing is written and MlmError has every reason.
    """
    verdicts = [PreflightVerdict.read(path) for path in reports]
    text = "\n\n".join(map(table, verdicts)) + "\n"
    answer(text)
    reasons = [f"{verdict.run}: {fault}" for verdict in verdicts for fault in verdict.findings]
    if reasons:
        raise MlmError(f"The preflight did not pass:\n{listed(reasons)}")
    write_text(passed, text)
