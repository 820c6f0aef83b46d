"""Publishing on the Hugging Face Hub."""

from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job


# What is sent is compared with its record when its digest is worked out for the Hub.
@run_as_job("publish_tokenizer", "publish_model", unread=("model", "tokenizer"))
def publish(job: Any):
    from mlm.config.corpus import Corpus
    from mlm.config.publish import Publish
    from mlm.publishing.uploads import publish_model, publish_tokenizer, published_source

    inputs, params = job.input, job.params
    section = Publish.model_validate(params.publish)
    common = section, published_source(section, Corpus.model_validate(params.corpus))
    if section.model:
        figures = inputs.training, inputs.evaluation
        record = publish_model(*common, Path(inputs.model).parent, *figures, params.prompt)
    else:
        record = publish_tokenizer(*common, Path(inputs.tokenizer[0]).parent, inputs.record)
    record.write(job.output[0])
    return Done(f"{record.destination.repository}, commit {record.commit[:7]}")
