"""Rule `publish_tokenizer`: the tokenizer in a repository of its own."""

from pathlib import Path

from job_adapter import run


def main(job):
    from mlm.publishing.publishing_jobs import publish_settings, publish_tokenizer

    publish_tokenizer(
        publish_settings(job.params.to, job.params.card, job.params.operational["attempts"]),
        Path(job.input.tokenizer[0]).parent,
        job.input.record,
        job.params.of_corpus,
        job.output[0],
    )


if __name__ == "__main__":
    run(main, snakemake, unread=("tokenizer",))
