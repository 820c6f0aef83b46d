"""Rules `publish_tokenizer`, `publish_dataset` and `publish_model`: each to its repository."""

from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.config.corpus import Corpus
from mlm.config.publish import Publish


# What is sent is compared with its record when its digest is worked out for the Hub.
@run_as_job(unread=("model", "shards", "tokenizer"))
def main(job):
    from mlm.publishing.publishing_jobs import publish_dataset, publish_model, publish_tokenizer
    from mlm.publishing.tokenizer_and_dataset_cards import published_source

    made, params = job.input, job.params
    section = Publish.of_param(params.publish)
    common = section, published_source(section, Corpus.of_param(params.corpus))
    if "model" in params.publish:
        figures = made.training, made.evaluation
        record = publish_model(*common, Path(made.model).parent, *figures, params.prompt)
    elif "dataset" in params.publish:
        manifests = {Path(manifest).stem: manifest for manifest in made.manifests}
        record = publish_dataset(*common, manifests, Path(made.tokenizer[0]).parent, made.record)
    else:
        directory = Path(made.tokenizer[0]).parent
        record = publish_tokenizer(*common, directory, made.record)
    record.write(job.output[0])
    return Done(f"{record.destination.repository}, commit {record.commit[:7]}")
