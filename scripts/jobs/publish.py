"""Publishing on the Hugging Face Hub, and exports in other formats."""

from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job


# What is sent is compared with its record when its digest is worked out for the Hub.
@run_as_job(
    "publish_tokenizer", "publish_dataset", "publish_model", unread=("model", "shards", "tokenizer")
)
def publish(job: Any):
    from mlm.config.corpus import Corpus
    from mlm.config.publish import Publish
    from mlm.publishing.metadata import published_source
    from mlm.publishing.publishing_jobs import publish_dataset, publish_model, publish_tokenizer

    inputs, params = job.input, job.params
    section = Publish.model_validate(params.publish)
    common = section, published_source(section, Corpus.model_validate(params.corpus))
    if section.model:
        figures = inputs.training, inputs.evaluation
        record = publish_model(*common, Path(inputs.model).parent, *figures, params.prompt)
    elif section.dataset:
        manifests = {Path(manifest).stem: manifest for manifest in inputs.manifests}
        tokenizer = Path(inputs.tokenizer[0]).parent
        record = publish_dataset(*common, manifests, tokenizer, inputs.record)
    else:
        record = publish_tokenizer(*common, Path(inputs.tokenizer[0]).parent, inputs.record)
    record.write(job.output[0])
    return Done(f"{record.destination.repository}, commit {record.commit[:7]}")


@run_as_job("export")
def export(job: Any):
    from mlm.config.corpus import Corpus
    from mlm.config.publish import Publish
    from mlm.corpus.artefacts import CorpusSplit
    from mlm.foundations.atomic import write_json, write_text
    from mlm.publishing.metadata import checksums, croissant, published_source
    from mlm.samples.manifests import Manifest
    from mlm.training.artefacts import Training

    section = Publish.model_validate(job.params.publish)
    source = published_source(section, Corpus.model_validate(job.params.corpus))
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
