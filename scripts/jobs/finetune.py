"""Fine-tuning: its examples, the counting baseline, each fold, and the folds together."""

from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job


@run_as_job("finetune_data")
def write_examples(job: Any):
    from mlm.config.finetune import Finetune
    from mlm.finetuning.example_sources import write_data

    section, output = Finetune.model_validate(job.params.finetune), job.output
    write_data(section, job.params.seed, output.table, output.summary)


@run_as_job("finetune_baseline")
def predict_by_counting(job: Any):
    from mlm.finetuning.counting_baselines import write_baseline

    output, params = job.output, job.params
    write_baseline(job.input.table, output.predictions, output.record, params.task, params.folds)


@run_as_job("finetune_fold", "finetune_published", "finetune_model")
def train_fold(job: Any):
    from mlm.config.accelerator import Accelerator
    from mlm.config.finetune import Finetune
    from mlm.finetuning.fold_job import FoldName, finetune_fold

    wildcards, params, output = job.wildcards, job.params, job.output
    published, run, fold = params.get("encoder"), wildcards.get("run"), wildcards.get("fold")
    start = wildcards.encoder if published else wildcards.get("start", "pretrained")
    done = finetune_fold(
        FoldName(run, start, None if fold is None else int(fold)),
        params.seed,
        Finetune.model_validate(params.finetune),
        Accelerator.model_validate(params.accelerator),
        examples=job.input.table,
        model=published or Path(job.input.model).parent,
        directory=Path(output.get("weights", output.record)).parent,
        record=output.record,
        state=f"state/{run or 'published'}/finetune/{start}-fold-{fold or 'all'}",
    )
    return Done(done)


@run_as_job("finetune_merge")
def merge_folds(job: Any):
    from mlm.config.finetune import Finetune
    from mlm.finetuning.merged_folds import comparison_table, write_results
    from mlm.foundations.terminal import show

    inputs, params = job.input, job.params
    folds = {s: [Path(file).parent for file in inputs[f"{s}_record"]] for s in params.starts}
    section, directory = Finetune.model_validate(params.finetune), Path(job.output.metrics).parent
    where = inputs.table, inputs.baseline, folds, directory
    metrics = write_results(job.wildcards.run, section, *where)
    show(comparison_table(metrics))
    score = metrics.metric.shown(metrics.models["pretrained"].score)
    return Done(f"{metrics.metric.unit} {score}")
