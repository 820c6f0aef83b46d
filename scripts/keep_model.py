"""Rule `keep_model`: the files of a finished training, copied to where they are read."""

import shutil

from mlm.foundations.atomic import replacing
from mlm.jobs.job import run
from mlm.results.artefacts import made_from, read_artefact, write_artefact


def main(job):
    for name, target in job.output.items():
        if name != "summary":
            with replacing(target) as temporary:
                shutil.copyfile(job.input[name], temporary)
    trained = read_artefact(job.input.summary)
    write_artefact(job.output.summary, trained | {"code": made_from(trained).code})


if __name__ == "__main__":
    run(main, snakemake)
