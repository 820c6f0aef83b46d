"""The gate: preflights as a table, and an error where one failed."""

from mlm.atomic import read_json, write_json
from mlm.errors import MlmError
from mlm.preflight_findings import Finding, failed
from mlm.preflight_table import table


def show_and_require(reports: list[str], marker: str | None = None) -> None:
    """Print every preflight.json of `reports` as a table; write `marker` where all passed.

    Raises MlmError with every reason where one did not pass.
    """
    found = [read_json(path) for path in reports]
    for report in found:
        print(table(report), end="\n\n")
    reasons = [
        f"  - {report['run']}: {finding.in_words()}"
        for report in found
        for finding in failed([Finding(**f) for f in report["findings"]])
    ]
    if reasons:
        raise MlmError("The preflight did not pass:\n" + "\n".join(reasons))
    if marker:
        write_json(marker, {"format_version": 1, "passed": [r["run"] for r in found]})
