"""Rule `pretrain`: train one run's model and export it in the Hugging Face layout."""

from mlm.job import run


def main(job):
    from mlm.pretraining_job import RunFiles, train_and_export

    train_and_export(
        run=job.wildcards.run,
        model=job.params.model,
        pretraining=job.params.pretraining,
        accelerator=job.params.accelerator,
        unknown_literal=job.params.unknown_literal,
        files=RunFiles(
            tokenizer=job.input.tokenizer,
            manifests={"train": job.input.train, "validation": job.input.validation},
            code=list(job.input.code),
            model_directory=job.params.model_directory,
            log=job.output.log,
            summary=job.output.summary,
        ),
    )


if __name__ == "__main__":
    run(main, snakemake)
