"""Rules `finetune_fold` and `finetune_published`: one fold, from one start."""

from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.config.accelerator import Accelerator
from mlm.config.finetune import Finetune
from mlm.finetuning.fold_training import finetune_fold
from mlm.finetuning.tables import EpochRow, read_rows


@run_as_job
def main(job):
    asked, params = job.wildcards, job.params
    section = Finetune.of_param(params.finetune)
    # Folds run side by side on this machine, with this many threads each.
    here = {"cpu_threads": section.cpu_threads, "deterministic": True}
    published = params.get("encoder")
    run, start = (None, asked.encoder) if published else (asked.run, asked.start)
    finetune_fold(
        (run, start, int(asked.fold)),
        params.seed,
        section,
        Accelerator.of_param(params.accelerator | here),
        examples=job.input.table,
        model=published or Path(job.input.model).parent,
        directory=Path(job.output.record).parent,
        state=f"state/{run or 'published'}/finetune/{start}-fold-{asked.fold}",
    )
    last = [row for row in read_rows(job.output.history, EpochRow) if row.epoch == section.epochs]
    score = sum(row.score for row in last) / len(last)
    return Done(f"{'accuracy' if section.task == 'classification' else 'RMSE'} {score:.3f}")
