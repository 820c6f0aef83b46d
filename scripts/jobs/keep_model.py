"""Rule `keep_model`: the files of a finished training, copied to where they are read."""

import shutil
from dataclasses import replace

from job_adapter import run_as_job
from mlm.foundations.artefacts import MadeFrom
from mlm.foundations.atomic import replacing
from mlm.training.artefacts import Training


@run_as_job
def main(job):
    for name, target in job.output.items():
        if name != "summary":
            with replacing(target) as temporary:
                shutil.copyfile(job.input[name], temporary)
    trained = Training.read(job.input.summary)
    # Without the training's record: a kill before the copy's own is written leaves none.
    copied = replace(trained, code=trained.made_from.code, made_from=MadeFrom())
    copied.write(job.output.summary)
