"""Rule `corpus_decontaminate`: documents of a part of train that share words with held-out ones."""

from pathlib import Path

from job_adapter import run
from mlm.corpus.corpus_building import decontaminate_part


def main(job):
    decontaminate_part(
        [Path(record) for record in job.input.removed],
        int(job.wildcards.part),
        job.params.settings,
        Path(job.output.removed),
    ).write(job.output.record)


if __name__ == "__main__":
    run(main, snakemake)
