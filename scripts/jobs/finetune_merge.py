"""Rule `finetune_merge`: the folds together, beside the baseline, and the best fold's model."""

from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.config.finetune import Finetune
from mlm.finetuning.results import STARTS, write_results


@run_as_job
def main(job):
    made, params, run = job.input, job.params, job.wildcards.run
    starts = *STARTS, *params.also
    folds = {s: [Path(record).parent for record in made[f"{s}_record"]] for s in starts}
    section, directory = Finetune.of_param(params.finetune), Path(job.output.metrics).parent
    tables = made.table, made.ridge
    asked = run, section, params.seed, *tables, folds, made.tokenizer, directory
    found = write_results(*asked)
    pretrained, random = (found.models[start].all.score for start in STARTS)
    return Done(f"{found.score} {pretrained:.3f}; from random weights {random:.3f}")
