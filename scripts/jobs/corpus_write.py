"""Rule `corpus_write`: one of the Parquet files of a split, of the documents that are kept."""

from job_adapter import run
from mlm.corpus.corpus_building import refuse_empty_splits, spooled_corpus
from mlm.corpus.corpus_writing import write_share
from mlm.corpus.shares import file_name
from mlm.foundations.atomic import replacing


def main(job):
    corpus = spooled_corpus(job.input.removed, job.input.get("near"))
    refuse_empty_splits(corpus)
    share, shares = int(job.wildcards.share), int(job.wildcards.shares)
    with replacing(job.output.file) as file, replacing(job.output.groups) as groups:
        name = file_name(job.wildcards.split, share, shares)
        written = write_share(corpus, job.wildcards.split, share, shares, name, file, groups)
    written.write(job.output.record)


if __name__ == "__main__":
    run(main, snakemake)
