"""Rule `publish_model`: one run's model with its card and its figures."""

from pathlib import Path

from job_adapter import run
from mlm.config.corpus import Corpus
from mlm.config.publish import Publish


def main(job):
    from mlm.publishing.cards import source_in_words
    from mlm.publishing.publishing_jobs import publish_model

    section = Publish.of_param(job.params.publish | job.params.operational)
    record = publish_model(
        section,
        source_in_words(section, Corpus.of_param(job.params.corpus)),
        Path(job.input.model).parent,
        job.input.training,
        job.input.evaluation,
        job.params.prompt,
    )
    record.write(job.output[0])


if __name__ == "__main__":
    # What is sent is compared with its record when its digest is worked out for the Hub.
    run(main, snakemake, unread=("model",))
