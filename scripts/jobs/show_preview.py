"""Rule `preview`: print the masked samples of every run."""

from job_adapter import run_as_job
from mlm.foundations.atomic import write_text
from mlm.foundations.terminal import answer
from mlm.samples.artefacts import Preview
from mlm.samples.preview import preview_text


@run_as_job
def main(job):
    text = preview_text([Preview.read(path) for path in job.input.samples])
    answer(text)
    write_text(job.output[0], text)
