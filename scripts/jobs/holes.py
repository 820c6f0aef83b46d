"""Rule `holes`: find the documents that a run forgets in the samples of the train split."""

from job_adapter import run_as_job


@run_as_job
def main(job):
    from mlm.samples.documents_in_samples import holes_of

    found = holes_of(
        job.wildcards.run,
        job.params.forget,
        described=job.input.described,
        manifest=job.input.train,
        tokenizer=job.input.tokenizer,
        settings=job.params.settings,
    )
    found.write(job.output[0])
    print(
        f"{job.wildcards.run}: is to be trained without {found.documents:,} documents, "
        f"{found.tokens:,} tokens in {found.samples:,} samples"
    )
