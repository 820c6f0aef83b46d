"""Rule `manifest`, for shards that were made elsewhere."""

from job_adapter import run_as_job
from mlm.samples.prebuilt import prebuilt_manifest
from mlm.samples.verification import SampleSchema
from mlm.tokenizer.encoding import Encoder


@run_as_job(unread=("shards",))
def main(job):
    encoder = Encoder.load(job.input.tokenizer)
    schema = SampleSchema(
        job.params.sequence_length, encoder.vocabulary_size, encoder.special_ids.pad
    )
    prebuilt_manifest(job.wildcards.split, job.params.place, schema).write(job.output[0])
