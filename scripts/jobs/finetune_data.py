"""Rule `finetune_data`: the labelled passages of the fine-tuning, with the fold of each."""

from job_adapter import run
from mlm.finetuning.making_examples import write_data
from mlm.finetuning.year_task import PretrainingSplit


def main(job):
    params = job.params
    split = PretrainingSplit(**params.pretraining) if params.pretraining else None
    write_data(params.finetune, params.seed, split, job.output.table, job.output.summary)


if __name__ == "__main__":
    run(main, snakemake)
