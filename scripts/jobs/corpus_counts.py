"""Rule `corpus_counts`: what all parts and files of a corpus counted, summed up."""

from pathlib import Path

from job_adapter import run
from mlm.corpus.artefacts import WrittenFile
from mlm.corpus.corpus_building import SPLITS, described_splits, spooled_corpus

UNREAD = (
    *("spools", "digests", "numbers", "near_numbers"),
    *("signed_signatures", "signed_keys", "links", "files"),
)


def main(job):
    corpus = spooled_corpus(job.input.removed, job.input.get("near"))
    written, groups = (
        {split: [read(path) for path in job.input[f"{split}_{kind}"]] for split in SPLITS}
        for kind, read in (("records", WrittenFile.read), ("groups", Path))
    )
    for split, described in described_splits(corpus, written, groups).items():
        described.write(job.output[split])


if __name__ == "__main__":
    run(main, snakemake, unread=UNREAD)
