"""The verdicts of preflights for the terminal: a table of targets, and what is wrong in words."""

from mlm.foundations.atomic import write_text
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.terminal import answer, columns, in_binary_bytes, in_exact_time
from mlm.preflight.artefacts import ForwardReport, PreflightVerdict, Target

#: Of the columns of `row`; those of validation and evaluation are their peaks.
HEADINGS = (
    *("target", "verdict", "replicas", "precision", "peak memory", "validation", "evaluation"),
    *("available", "FLOPs/step", "time of the run"),
)


def _size(number: int | None) -> str:
    return "?" if number is None else in_binary_bytes(number)


def table(report: PreflightVerdict) -> str:
    """Return all targets of one preflight.json, its notes and its findings, as text."""
    lines = [
        f"Preflight of {report.run} ({report.label}; {report.effort} compilation)",
        columns(cells(report)),
        *(f"  {note}" for note in report.notes),
        *(f"  {finding}" for finding in report.findings),
        f"{report.run}: {'passed' if report.passed else 'FAILED'}",
    ]
    return "\n".join(lines)


def cells(report: PreflightVerdict) -> list[tuple[str, ...]]:
    """Return HEADINGS and the `row` of every target, without columns that say nothing."""
    rows = HEADINGS, *map(row, report.targets)
    telling = [column for column in zip(*rows, strict=True) if {*column[1:]} != {"-"}]
    return list(zip(*telling, strict=True))


def row(target: Target) -> tuple[str, ...]:
    """Return one target of preflight.json, as text in the order of HEADINGS."""
    verdict = {True: "fits", False: "does not fit", None: target.outcome.replace("_", " ")}
    return (
        target.target,
        verdict[target.fits],
        str(target.replicas),
        target.precision,
        _size(target.memory and target.memory.peak),
        *(_forward(target.forward.get(name)) for name in ("validation", "evaluation")),
        _size(target.hbm_per_replica),
        f"{target.flops_per_step:.3g}" if target.flops_per_step else "?",
        _time(target),
    )


def _time(target: Target) -> str:
    if target.estimate is None:
        return "?"
    time = in_exact_time(target.estimate.run_seconds)
    return time if target.estimate.bound == "arithmetic" else f"from {time} on"


def _forward(report: ForwardReport | None) -> str:
    if report is None:
        return "-"
    return "does not fit" if report.fits is False else _size(report.peak or None)


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
