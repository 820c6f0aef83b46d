"""Rule `export`: Croissant metadata of the shards, and checksums of corpus, shards and models."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.config.corpus import Corpus
from mlm.config.publish import Publish
from mlm.corpus.artefacts import CorpusSplit
from mlm.foundations.atomic import write_json, write_text
from mlm.samples.manifests import Manifest
from mlm.training.artefacts import Training


@run_as_job
def main(job):
    from mlm.publishing.exports import checksums, croissant
    from mlm.publishing.tokenizer_and_dataset_cards import published_source

    section = Publish.of_param(job.params.publish)
    source = published_source(section, Corpus.of_param(job.params.corpus))
    manifests = {Path(path).stem: Manifest.read(path) for path in job.input.manifests}
    write_json(job.output.croissant, croissant(job.params.title, source, section, manifests))
    digests = {s.path: s.sha256 for m in manifests.values() for s in m.shards}
    for path in job.input.corpus:
        digests |= CorpusSplit.read(path).made_from.outputs
    for path in job.input.trainings:
        digests |= Training.read(path).made_from.outputs
    # training.csv has timings, which its digest leaves out; other shards may be in a bucket.
    local = {p: d for p, d in digests.items() if not p.endswith(".csv") and "://" not in p}
    write_text(job.output.checksums, checksums(local))
