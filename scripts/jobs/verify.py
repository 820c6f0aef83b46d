"""Rule `verify`: read every shard again and compare it with its manifest."""

from job_adapter import run_as_job
from mlm.samples.artefacts import Verification
from mlm.samples.manifests import Manifest, project_root
from mlm.samples.verification import SampleSchema, raise_problems, verification_text, verify_split
from mlm.tokenizer.encoding import Encoder


@run_as_job(unread=("shards",))
def main(job):
    encoder = Encoder.load(job.input.tokenizer)
    schema = SampleSchema(
        job.params.sequence_length, encoder.vocabulary_size, encoder.special_ids.pad
    )
    manifests = {path: Manifest.read(path) for path in job.input.manifests}
    results = [
        verify_split(manifest, schema, project_root(path)) for path, manifest in manifests.items()
    ]
    print(verification_text(results))
    raise_problems(results)
    Verification({result.split: result for result in results}).write(job.output[0])
