"""Rule `corpus`: any source of text to three parquet files, one document a row."""

from mlm.corpus.corpus_building import SPLITS, build_corpus
from mlm.jobs.job import run


def main(job):
    counts = build_corpus(
        settings=job.params.settings,
        files={split: list(job.input.get(split, [])) for split in SPLITS},
        parquet={split: job.output[f"{split}"] for split in SPLITS},
        described={split: job.output[f"{split}_json"] for split in SPLITS},
    )
    for split, count in counts.items():
        print(f"{split}: {count.filters['kept']:,} documents, {count.bytes:,} bytes")


if __name__ == "__main__":
    run(main, snakemake)
