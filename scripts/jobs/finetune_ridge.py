"""Rule `finetune_ridge`: TF-IDF and ridge regression on the folds of the fine-tuning."""

from job_adapter import run
from mlm.finetuning.ridge_folds import RidgeFiles, write_ridge_predictions


def main(job):
    files = RidgeFiles(job.input.table, job.output.predictions, job.output.record)
    params = job.params
    write_ridge_predictions(files, params.task, params.folds, params.penalties)


if __name__ == "__main__":
    run(main, snakemake)
