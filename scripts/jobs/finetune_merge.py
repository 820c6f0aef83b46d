"""Rule `finetune_merge`: the folds together, beside the baseline, and the best fold's model."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.config.finetune import Finetune
from mlm.finetuning.results import STARTS, write_results


@run_as_job
def main(job):
    write_results(
        job.wildcards.run,
        Finetune.of_param(job.params.finetune),
        job.params.seed,
        job.input.table,
        job.input.ridge,
        {s: [Path(record).parent for record in job.input[f"{s}_records"]] for s in STARTS},
        job.input.tokenizer,
        Path(job.output.metrics).parent,
    )
