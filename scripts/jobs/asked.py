"""Rule `asked`: what a run's training was shown near the texts that its report shows."""

from job_adapter import run_as_job
from mlm.asking.seen_near import seen_near


@run_as_job
def main(job):
    filters, holes = dict(job.params.filters), next(iter(job.input.holes), None)
    seen_near(job.wildcards.run, job.input, filters, holes).write(job.output[0])
