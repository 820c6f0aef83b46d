"""Rule `corpus`: any source of text to the Parquet files of three splits, one document a row."""

from mlm.corpus.corpus_building import SPLITS, build_corpus
from mlm.jobs.job import run


def main(job):
    made = build_corpus(
        settings=job.params.settings,
        files={split: list(job.input.get(split, [])) for split in SPLITS},
        parquet={split: list(job.output[split]) for split in SPLITS},
        described={split: job.output[f"{split}_json"] for split in SPLITS},
    )
    for split, described in made.items():
        print(f"{split}: {described.documents:,} documents, {described.bytes:,} bytes")


if __name__ == "__main__":
    run(main, snakemake)
