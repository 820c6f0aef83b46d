"""Rule `publish_dataset`: the shards with their manifests in a dataset repository."""

from pathlib import Path

from job_adapter import run


def main(job):
    from mlm.publishing.publishing_jobs import publish_dataset, publish_settings

    publish_dataset(
        publish_settings(job.params.to, job.params.card, job.params.operational["attempts"]),
        {Path(manifest).stem: manifest for manifest in job.input.manifests},
        Path(job.input.tokenizer[0]).parent,
        job.input.record,
        job.output[0],
    )


if __name__ == "__main__":
    run(main, snakemake, unread=("shards", "tokenizer"))
