"""The verdicts of preflights for the terminal: a table of targets, and what is wrong in words."""

from mlm.accelerators.artefacts import ADVICE, ForwardReport, PreflightVerdict, Target, failed
from mlm.foundations.atomic import write_text
from mlm.foundations.errors import MlmError, listed
from mlm.foundations.phrasing import in_binary_bytes, in_exact_time

#: Of the columns of `row`; those of validation and evaluation are their peaks.
HEADINGS = (
    *("target", "verdict", "replicas", "peak HBM", "validation", "evaluation", "HBM"),
    *("largest batch", "FLOPs/step", "collectives/step", "time of the run"),
)


def _size(number: int | None) -> str:
    return "?" if number is None else in_binary_bytes(number)


def table(report: PreflightVerdict) -> str:
    """All targets of one preflight.json, and its findings, as text."""
    rows = [HEADINGS, *(row(t) for t in report.targets)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"Preflight of {report.run} ({report.label}; {report.effort} compilation)",
        *("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows),
    ]
    if muon := muon_in_words(report):
        lines.append(f"  {muon}")
    # Advice last: what stops a training is read first.
    lines += [
        f"  {f.in_words()}" for f in sorted(report.findings, key=lambda f: f.severity == ADVICE)
    ]
    lines.append(f"{report.run}: {'passed' if report.passed else 'FAILED'}")
    return "\n".join(lines)


def muon_in_words(report: PreflightVerdict) -> str | None:
    """What Muon's update costs, over all targets; None with adamw."""
    shares = sorted(t.muon_share for t in report.targets if t.muon_share is not None)
    if not shares:
        return None
    # Targets differ in what their compilers count beside the products.
    ends = dict.fromkeys(f"{100 * share:.1f}" for share in (shares[0], shares[-1]))
    return f"Muon's update: {' to '.join(ends)} % of the step's FLOPs"


def row(target: Target) -> tuple[str, ...]:
    """One target of preflight.json, as text in the order of HEADINGS."""
    verdict = {True: "fits", False: "does not fit", None: target.outcome.replace("_", " ")}
    time = collectives = "?"
    if target.estimate:
        time = " to ".join(map(in_exact_time, target.estimate.run_seconds))
        collectives = in_exact_time(target.estimate.collective_seconds)
    return (
        target.target,
        verdict[target.fits],
        str(target.replicas or "?"),
        _size(target.memory and target.memory.peak),
        *(_forward(target.forward.get(name)) for name in ("validation", "evaluation")),
        _size(target.hbm_per_replica),
        largest_in_words(target) or "-",
        f"{target.flops_per_step:.3g}" if target.flops_per_step else "?",
        collectives,
        time,
    )


def largest_in_words(target: Target) -> str:
    """The largest batches that fit, if they were searched."""
    found = sorted((target.largest_batch or {}).items())
    return ", ".join(f"{kind} {size or 'none'}" for kind, size in found if size is not None)


def _forward(said: ForwardReport | None) -> str:
    if said is None:
        return "-"
    return _size(said.peak) if said.fits else "does not fit"


def show_and_require(reports: list[str], passed: str) -> None:
    """Print every preflight.json of `reports` as a table, and write the tables to `passed`.

    If one did not pass, nothing is written and MlmError has every reason.
    """
    found = [PreflightVerdict.read(path) for path in reports]
    text = "\n\n".join(map(table, found)) + "\n"
    print(text)
    reasons = [f"{r.run}: {finding.in_words()}" for r in found for finding in failed(r.findings)]
    if reasons:
        raise MlmError(f"The preflight did not pass:\n{listed(reasons)}")
    write_text(passed, text)
