"""Rule `finetune_ridge`: TF-IDF and ridge regression on the folds of the fine-tuning."""

from mlm.finetuning.ridge_folds import write_ridge_predictions
from mlm.job import run


def main(job):
    params = job.params
    write_ridge_predictions(
        job.input.table, params.task, params.folds, params.penalty, job.output[0]
    )


if __name__ == "__main__":
    run(main, snakemake)
