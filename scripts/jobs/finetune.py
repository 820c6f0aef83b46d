"""Fine-tuning: its examples, the counting baseline, each fold, and the folds together."""

from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job


@run_as_job("finetune_data")
def write_examples(job: Any):
    from mlm.config.finetune import Finetune
    from mlm.finetuning.example_sources import write_data

    section, params = Finetune.model_validate(job.params.finetune), job.params
    write_data(section, params.seed, params.held_out, job.output.table, job.output.summary)


@run_as_job("finetune_baseline")
def predict_by_counting(job: Any):
    from mlm.finetuning.ridge_baseline import write_baseline

    output, params = job.output, job.params
    write_baseline(job.input.table, output.predictions, output.record, params.task, params.folds)


@run_as_job("finetune_fold", "finetune_published", "finetune_model")
def train_fold(job: Any):
    from mlm.config.accelerator import Accelerator
    from mlm.config.finetune import Finetune
    from mlm.finetuning.fold_training import finetune_fold

    wildcards, params, output = job.wildcards, job.params, job.output
    section, published = Finetune.model_validate(params.finetune), params.get("encoder")
    run, fold = wildcards.get("run"), wildcards.get("fold")
    start = wildcards.encoder if published else wildcards.get("start", "pretrained")
    done = finetune_fold(
        (run, start, None if fold is None else int(fold)),
        params.seed,
        section,
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
    from mlm.finetuning.results import STARTS, write_results
    from mlm.finetuning.scores import metric_of

    inputs, params, run = job.input, job.params, job.wildcards.run
    starts = *STARTS, *params.also
    folds = {s: [Path(record).parent for record in inputs[f"{s}_record"]] for s in starts}
    section, directory = Finetune.model_validate(params.finetune), Path(job.output.metrics).parent
    metrics = write_results(run, section, inputs.table, inputs.baseline, folds, directory)
    scores = (f"{name} {model.all.score:.3f}" for name, model in metrics.models.items())
    metric = metric_of(metrics.task, list(metrics.data.classes or ()))
    return Done(f"{metric.unit}: {', '.join(scores)}")
