"""Rule `report`: results/report.html and report.json from the artefacts of every stage."""

from dataclasses import replace
from pathlib import Path

from job_adapter import run
from mlm.foundations.digests import value_sha256
from mlm.report.page import TEMPLATES, write_report
from mlm.report.report_inputs import OF_RUNS, Results, code_of_stages, read_run, read_shared


def main(job):
    """Read what the rule names, in the order of its runs, and write the report."""
    asked, made = job.params.report, job.input
    stages = [stage for stage in ("curves", *OF_RUNS) if made.get(stage)]
    runs = [
        read_run(name, job.params.overrides[name], {stage: made[stage][i] for stage in stages})
        for i, name in enumerate(job.params.runs)
    ]
    results = Results(
        title=asked["title"],
        sections=list(asked["sections"]),
        config=job.params.config,
        code={},
        **read_shared(made),
        runs=runs,
    )
    code = code_of_stages(results) | {"report": value_sha256(job.params.code)}
    drawings = {Path(path).stem: path for path in job.output.figures}
    write_report(
        replace(results, code=code), TEMPLATES, job.output.page, job.output.numbers, drawings
    )


if __name__ == "__main__":
    run(main, snakemake)
