"""Rule `preview`: print the masked samples of every run."""

from mlm.batches.artefacts import Preview
from mlm.batches.preview_text import in_words
from mlm.foundations.atomic import write_text
from mlm.jobs.job import run


def main(job):
    text = in_words([Preview.read(path) for path in job.input.samples])
    print(text)
    write_text(job.output[0], text)


if __name__ == "__main__":
    run(main, snakemake)
