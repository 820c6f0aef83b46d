"""Rule `finetune_ridge`: TF-IDF and ridge regression on the folds of the fine-tuning."""

from job_adapter import run_as_job
from mlm.finetuning.ridge_baseline import write_ridge_predictions


@run_as_job
def main(job):
    params, made = job.params, job.output
    asked = params.task, params.folds
    write_ridge_predictions(job.input.table, made.predictions, made.record, *asked)
