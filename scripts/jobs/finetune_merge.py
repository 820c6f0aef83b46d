"""Rule `finetune_merge`: the folds together, beside the baseline, and the best fold's model."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.config.finetune import Finetune
from mlm.finetuning.results import STARTS, write_results


@run_as_job
def main(job):
    made, params, run = job.input, job.params, job.wildcards.run
    folds = {s: [Path(record).parent for record in made[f"{s}_records"]] for s in STARTS}
    section, directory = Finetune.of_param(params.finetune), Path(job.output.metrics).parent
    tables = made.table, made.ridge
    write_results(run, section, params.seed, *tables, folds, made.tokenizer, directory)
