"""Rule `corpus_counts`: what all parts and files of a corpus counted, summed up."""

from pathlib import Path

import numpy as np

from job_adapter import run
from mlm.corpus.artefacts import WrittenFile
from mlm.corpus.corpus_building import (
    SPLITS,
    described_splits,
    spooled_corpus,
    written_held_out,
)

UNREAD = (
    *("spools", "digests", "numbers", "near_numbers"),
    *("signed_signatures", "signed_keys", "links", "train_files"),
)


def main(job):
    corpus = spooled_corpus(job.input.removed, job.input.get("near"))
    written, groups = (
        {split: [read(path) for path in job.input[f"{split}_{kind}"]] for split in SPLITS}
        for kind, read in (("records", WrittenFile.read), ("groups", Path))
    )
    held_out = written_held_out(
        {split: list(map(Path, job.input[f"{split}_files"])) for split in SPLITS[1:]}
    )
    for path in job.input.shared:
        held_out.add(np.fromfile(path, np.uint64))
    for split, described in described_splits(corpus, written, groups, held_out).items():
        described.write(job.output[split])


if __name__ == "__main__":
    run(main, snakemake, unread=UNREAD)
