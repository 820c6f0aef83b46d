"""Rule `asked`: what a run's training was shown near the texts that its report shows."""

from pathlib import Path

from job_adapter import run
from mlm.asking.seen_near import Records, seen_near


def main(job):
    names = ("training", "evaluation", "fill_mask", "corpus", "manifest", "tokenizer")
    holes = next(map(Path, job.input.holes), None)
    records = Records(**{name: Path(job.input[name]) for name in names}, holes=holes)
    seen_near(job.wildcards.run, records, dict(job.params.filters)).write(job.output[0])


if __name__ == "__main__":
    run(main, snakemake)
