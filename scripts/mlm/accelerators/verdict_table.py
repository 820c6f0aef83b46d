"""The verdicts of preflights for the terminal: a table of targets, and what is wrong in words."""

from collections.abc import Mapping

from mlm.accelerators.artefacts import ADVICE, ForwardReport, PreflightVerdict, Target, failed
from mlm.config.targets import generation_of
from mlm.foundations.atomic import write_text
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.phrasing import in_binary_bytes, in_exact_time

#: Of the columns of `row`; those of validation and evaluation are their peaks.
HEADINGS = (
    *("target", "verdict", "replicas", "precision", "peak memory", "validation", "evaluation"),
    *("available", "largest batch", "FLOPs/step", "collectives/step", "time of the run", "cost"),
)


def _size(number: int | None) -> str:
    return "?" if number is None else in_binary_bytes(number)


def table(report: PreflightVerdict, prices: Mapping[str, float]) -> str:
    """All targets of one preflight.json, and its findings, as text; `prices` are per chip hour."""
    rows = cells(report, prices)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"Preflight of {report.run} ({report.label}; {report.effort} compilation)",
        *("  ".join(map(str.ljust, each, widths)).rstrip() for each in rows),
    ]
    if muon := muon_in_words(report):
        lines.append(f"  {muon}")
    # Advice last: what stops a training is read first.
    lines += [
        f"  {f.in_words()}" for f in sorted(report.findings, key=lambda f: f.severity == ADVICE)
    ]
    lines.append(f"{report.run}: {'passed' if report.passed else 'FAILED'}")
    return "\n".join(lines)


def cells(report: PreflightVerdict, prices: Mapping[str, float]) -> list[tuple[str, ...]]:
    """HEADINGS and the `row` of every target, without the columns that have nothing to say."""
    rows = HEADINGS, *(row(target, prices) for target in report.targets)
    columns = [column for column in zip(*rows, strict=True) if {*column[1:]} != {"-"}]
    return list(zip(*columns, strict=True))


def muon_in_words(report: PreflightVerdict) -> str | None:
    """What Muon's update costs, over all targets; None with adamw."""
    shares = sorted(t.muon_share for t in report.targets if t.muon_share is not None)
    if not shares:
        return None
    # Targets differ in what their compilers count beside the products.
    ends = dict.fromkeys(f"{100 * share:.1f}" for share in (shares[0], shares[-1]))
    return f"Muon's update: {' to '.join(ends)} % of the step's FLOPs"


def row(target: Target, prices: Mapping[str, float]) -> tuple[str, ...]:
    """One target of preflight.json, as text in the order of HEADINGS."""
    verdict = {True: "fits", False: "does not fit", None: target.outcome.replace("_", " ")}
    time, collectives, cost = "?", "-" if target.replicas == 1 else "?", "-"
    if target.estimate:
        time = " to ".join(map(in_exact_time, target.estimate.run_seconds))
        if target.replicas > 1:
            collectives = in_exact_time(target.estimate.collective_seconds)
        if price := prices.get(generation_of(target.target)):
            ends = (end / 3600 * target.chips * price for end in target.estimate.run_seconds)
            cost = " to ".join(f"{end:,.2f}" for end in ends)
    return (
        target.target,
        verdict[target.fits],
        str(target.replicas or "?"),
        target.precision or "?",
        _size(target.memory and target.memory.peak),
        *(_forward(target.forward.get(name)) for name in ("validation", "evaluation")),
        _size(target.hbm_per_replica),
        largest_in_words(target) or "-",
        f"{target.flops_per_step:.3g}" if target.flops_per_step else "?",
        collectives,
        time,
        cost,
    )


def largest_in_words(target: Target) -> str:
    """The largest batches that fit, if they were searched."""
    found = sorted((target.largest_batch or {}).items())
    return ", ".join(f"{kind} {size or 'none'}" for kind, size in found if size is not None)


def _forward(said: ForwardReport | None) -> str:
    if said is None:
        return "-"
    return "does not fit" if said.fits is False else _size(said.peak or None)


def show_and_require(reports: list[str], passed: str, prices: Mapping[str, float]) -> None:
    """Print every preflight.json of `reports` as a `table`, and write the tables to `passed`.

    If one did not pass, nothing is written and MlmError has every reason.
    """
    found = [PreflightVerdict.read(path) for path in reports]
    text = "\n\n".join(table(report, prices) for report in found) + "\n"
    print(text)
    reasons = [f"{r.run}: {finding.in_words()}" for r in found for finding in failed(r.findings)]
    if reasons:
        raise MlmError(f"The preflight did not pass:\n{listed(reasons)}")
    write_text(passed, text)
