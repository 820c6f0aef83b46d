"""Rule `pretrain`: train one run's model and export it in the Hugging Face layout."""

from pathlib import Path

from mlm.jobs.job import accelerator_of, run


def main(job):
    from mlm.pretraining.stage import RunFiles, RunSettings, train_and_export
    from mlm.publishing.background import PushSettings

    checkpoint = {
        key: getattr(job.resources, f"checkpoint_{key}") for key in ("every", "keep", "directory")
    }
    settings = RunSettings(
        name=job.wildcards.run,
        model=job.params.model,
        pretraining=job.params.pretraining | {"checkpoint": checkpoint},
        accelerator=accelerator_of(job),
        seed=job.params.seed,
        sequence_length=job.params.sequence_length,
        corpus=job.params.corpus,
    )
    files = RunFiles(
        tokenizer=job.input.tokenizer,
        manifests={"train": job.input.train, "validation": job.input.validation},
        model_directory=str(Path(job.output.weights).parent),
        log=job.output.log,
        summary=job.output.summary,
        preflight=(
            str(Path(job.output.summary).with_name("preflight.json"))
            if job.resources.preflight_required
            else None
        ),
    )
    asked = job.resources
    pushing = PushSettings(
        every=asked.push_every,
        repository=asked.push_repository,
        branch=asked.push_branch,
        private=bool(asked.push_private),
        attempts=asked.push_attempts,
        wait=asked.push_wait,
    )
    train_and_export(settings, files, pushing if pushing.every else None)


if __name__ == "__main__":
    run(main, snakemake, unread=("shards",))
