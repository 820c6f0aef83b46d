"""Rule `asked`: what a run's training was shown near the texts that its report shows."""

from job_adapter import run
from mlm.asking.seen_near import seen_near


def main(job):
    filters, holes = dict(job.params.filters), next(iter(job.input.holes), None)
    seen_near(job.wildcards.run, job.input, filters, holes).write(job.output[0])


if __name__ == "__main__":
    run(main, snakemake)
