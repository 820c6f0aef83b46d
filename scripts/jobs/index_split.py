"""Rule `index_split`: which words stand where in a split, for questions about a large corpus."""

from pathlib import Path

from job_adapter import run
from mlm.asking.index_building import IndexSources, build_index
from mlm.corpus.split_documents import SplitDocuments
from mlm.samples.manifests import Manifest, shards_root


def main(job):
    manifest = Path(job.input.manifest)
    sources = IndexSources(
        corpus=SplitDocuments.described(job.input.described),
        manifest=manifest,
        tokenizer=Path(job.input.tokenizer),
        root=shards_root(Manifest.read(manifest), manifest),
    )
    record = build_index(job.wildcards.split, sources, job.output.index)
    record.write(job.output.record)
    print(
        f"{record.split}: {record.documents:,} documents, {record.terms:,} terms, "
        f"{record.num_bytes:,} bytes"
    )


if __name__ == "__main__":
    run(main, snakemake)
