"""Rule `holes`: find the documents that a run forgets in the samples of the train split."""

from job_adapter import Done, run_as_job


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
    return Done(
        f"{found.documents:,} documents left out: {found.tokens:,} tokens in "
        f"{found.samples:,} samples"
    )
