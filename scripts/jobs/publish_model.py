"""Rule `publish_model`: one run's model with its card and its figures."""

from pathlib import Path

from job_adapter import run


def main(job):
    from mlm.publishing.publishing_jobs import publish_model, publish_settings

    publish_model(
        publish_settings(job.params.to, job.params.card, job.params.operational["attempts"]),
        Path(job.input.model).parent,
        {"training": job.input.training, "evaluation": job.input.evaluation},
        job.params.prompt,
        job.params.branch,
        job.output[0],
    )


if __name__ == "__main__":
    # What is sent is compared with its record when its digest is worked out for the Hub.
    run(main, snakemake, unread=("model",))
