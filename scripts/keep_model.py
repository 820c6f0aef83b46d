"""Rule `keep_model`: the files of a finished training, copied to where they are read."""

import shutil

from mlm.artefacts import made_from, read_artefact, write_artefact
from mlm.atomic import replacing
from mlm.job import run


def main(job):
    for name, target in job.output.items():
        if name != "summary":
            with replacing(target) as temporary:
                shutil.copyfile(job.input[name], temporary)
    trained = read_artefact(job.input.summary)
    write_artefact(job.output.summary, trained | {"code": made_from(trained).code})


if __name__ == "__main__":
    run(main, snakemake)
