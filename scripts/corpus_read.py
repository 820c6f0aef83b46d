"""Rule `corpus_read`: the first pass over a part of the source."""

from pathlib import Path

from mlm.corpus.filters import Filters
from mlm.corpus.part_reading import PartFiles, check_unchanged, read_part
from mlm.corpus.parts import Piece
from mlm.corpus.sources import open_source
from mlm.jobs.job import run


def main(job):
    settings, part = job.params.settings, job.params.part
    check_unchanged(job.params.files)
    pieces = {split: [Piece(*p) for p in found] for split, found in part["files"].items()}
    source = open_source(settings, pieces, tuple(part["share"]))
    files = PartFiles.below(Path(job.output.record).parent, int(job.wildcards.part))
    read_part(source, Filters(**settings["filters"]), settings["seed"], files)


if __name__ == "__main__":
    run(main, snakemake)
