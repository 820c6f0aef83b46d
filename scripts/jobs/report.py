"""Rule `report`: results/report.html and report.json from the artefacts of every stage."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.foundations.digests import value_sha256
from mlm.report.page import write_report
from mlm.report.report_inputs import OF_RUNS, Results, read_run, read_shared


@run_as_job
def main(job):
    """Read what the rule names, in the order of its runs, and write the report."""
    made = job.input
    stages = [stage for stage in ("curves", *OF_RUNS) if made.get(stage)]
    results = Results(
        title=job.params.report["title"],
        sections=list(job.params.report["sections"]),
        config=job.params.config,
        code=value_sha256(job.params.code),
        **read_shared(made),
        runs=[
            read_run(name, job.params.overrides[name], {stage: made[stage][i] for stage in stages})
            for i, name in enumerate(job.params.runs)
        ],
    )
    drawings = {Path(path).stem: path for path in job.output.figures}
    write_report(results, job.output.page, job.output.numbers, drawings)
