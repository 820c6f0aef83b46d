"""The gate: preflights as a table, and an error where one failed."""

from mlm.foundations.atomic import write_text
from mlm.foundations.errors import MlmError
from mlm.preflight.artefacts import Preflight
from mlm.preflight.findings import failed
from mlm.preflight.table import table


def show_and_require(reports: list[str], passed: str) -> None:
    """Print every preflight.json of `reports` as a table, and write it to `passed`.

    Raises MlmError with every reason where one did not pass; nothing is written then, so that
    asking again says so again.
    """
    found = [Preflight.read(path) for path in reports]
    text = "\n\n".join(table(report) for report in found) + "\n"
    print(text)
    reasons = [
        f"  - {report.run}: {finding.in_words()}"
        for report in found
        for finding in failed(report.findings)
    ]
    if reasons:
        raise MlmError("The preflight did not pass:\n" + "\n".join(reasons))
    write_text(passed, text)
