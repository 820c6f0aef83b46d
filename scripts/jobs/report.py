"""Rule `report`: results/report.html and report.json from the artefacts of every stage."""

from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.foundations.digests import value_sha256
from mlm.report.other_runs import OtherRun
from mlm.report.page import write_report
from mlm.report.report_inputs import OF_RUNS, Results, check_settings, read_run, read_shared


@run_as_job
def main(job):
    made, params = job.input, job.params
    stages = [stage for stage in ("curves", *OF_RUNS) if made.get(stage)]
    results = Results(
        title=params.report["title"],
        config=params.config,
        code=value_sha256(params.code),
        **read_shared(made),
        runs=[
            read_run(name, params.overrides[name], {stage: made[stage][i] for stage in stages})
            for i, name in enumerate(params.runs)
        ],
        also=[OtherRun.read(*other) for other in params.report["also"].items()],
    )
    for one in results.runs:
        check_settings(one, params.config)
    drawings = {Path(path).stem: path for path in job.output.figures}
    write_report(results, job.output.page, job.output.numbers, drawings)
    return Done(str(job.output.page))
