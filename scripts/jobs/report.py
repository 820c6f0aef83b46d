"""Rule `report`: results/report.html and report.json from the artefacts of every stage."""

from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job
from mlm.config.configuration import Configuration
from mlm.foundations.digests import value_sha256
from mlm.report.page import write_report
from mlm.report.report_inputs import OF_RUNS, Results, read_other_run, read_run, read_shared


@run_as_job("report")
def write_page(job: Any):
    inputs, params = job.input, job.params
    settings = Configuration.model_validate(params.config)
    stages = [stage for stage in ("curves", *OF_RUNS) if inputs.get(stage)]
    results = Results(
        title=settings.report.title,
        config=params.config,
        code=value_sha256(params.code),
        **read_shared(inputs),
        runs=[
            read_run(name, params.config["runs"][name], {s: inputs[s][i] for s in stages})
            for i, name in enumerate(settings.reported_runs)
        ],
        also=[read_other_run(*other) for other in settings.report.also.items()],
    )
    drawings = {Path(path).stem: path for path in job.output.figures}
    write_report(results, job.output.page, job.output.numbers, drawings)
    return Done(str(job.output.page))
