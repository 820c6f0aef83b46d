"""Rule `finetune_data`: the labelled passages of the fine-tuning, with the fold of each."""

from job_adapter import run_as_job
from mlm.config.finetune import Finetune
from mlm.finetuning.example_sources import write_data


@run_as_job
def main(job):
    section, params = Finetune.of_param(job.params.finetune), job.params
    write_data(section, params.seed, params.pretraining, job.output.table, job.output.summary)
