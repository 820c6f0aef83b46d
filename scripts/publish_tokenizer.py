"""Rule `publish_tokenizer`: the tokenizer in a repository of its own."""

from pathlib import Path

from mlm.job import run


def main(job):
    from mlm.publishing.stage import publish_settings, publish_tokenizer

    publish_tokenizer(
        publish_settings(job.params.to, job.params.card, job.resources.attempts),
        Path(job.input.tokenizer[0]).parent,
        job.input.stats[0] if job.input.stats else None,
        job.output[0],
    )


if __name__ == "__main__":
    run(main, snakemake)
