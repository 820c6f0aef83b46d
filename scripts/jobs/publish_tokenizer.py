"""Rule `publish_tokenizer`: the tokenizer in a repository of its own."""

from pathlib import Path

from job_adapter import run
from mlm.config.corpus import Corpus
from mlm.config.publish import Publish


def main(job):
    from mlm.publishing.cards import source_in_words
    from mlm.publishing.publishing_jobs import publish_tokenizer

    section = Publish.of_param(job.params.publish | job.params.operational)
    record = publish_tokenizer(
        section,
        source_in_words(section, Corpus.of_param(job.params.corpus)),
        Path(job.input.tokenizer[0]).parent,
        job.input.record,
        job.params.of_corpus,
    )
    record.write(job.output[0])


if __name__ == "__main__":
    run(main, snakemake, unread=("tokenizer",))
