"""Rule `corpus_sign`: the MinHash signatures of a part's documents."""

from pathlib import Path

from job_adapter import run
from mlm.corpus.corpus_building import sign_part
from mlm.corpus.near_duplicates import SignatureFiles, SignatureSettings


def main(job):
    number = int(job.wildcards.part)
    sign_part(
        [Path(path) for path in job.input.removed],
        number,
        SignatureSettings(**job.params.near),
        SignatureFiles.below(Path(job.output.record).parent, number),
    ).write(job.output.record)


if __name__ == "__main__":
    run(main, snakemake)
