"""Rule `corpus_counts`: what all parts and files of a corpus counted, summed up."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.config.fields import SPLITS
from mlm.corpus.split_descriptions import described_splits
from mlm.corpus.spooling import SpooledCorpus

#: Files that the pass itself checks, or does not open.
UNREAD = ("spools", "digests", "numbers", "signed", "links", "files")


@run_as_job(unread=UNREAD)
def main(job):
    corpus = SpooledCorpus([*job.input.removed, *job.input.near])
    written = {split: list(map(Path, job.input[f"{split}_records"])) for split in SPLITS}
    for split, described in described_splits(corpus, written).items():
        described.write(job.output[split])
