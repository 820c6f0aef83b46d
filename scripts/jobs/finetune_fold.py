"""Rule `finetune_fold`: one fold, from the pretrained weights or from random ones."""

from pathlib import Path

from job_adapter import run_as_job
from mlm.config.accelerator import Accelerator
from mlm.config.finetune import Finetune
from mlm.finetuning.fold_training import finetune_fold


@run_as_job
def main(job):
    asked, params = job.wildcards, job.params
    section = Finetune.of_param(params.finetune)
    # Folds run side by side on this machine, with this many threads each.
    here = {"cpu_threads": section.cpu_threads, "deterministic": True}
    finetune_fold(
        (asked.run, asked.start, int(asked.fold)),
        params.seed,
        section,
        Accelerator.of_param(params.accelerator | here),
        examples=job.input.table,
        model=Path(job.input.model).parent,
        directory=Path(job.output.record).parent,
        state=f"state/{asked.run}/finetune/{asked.start}-fold-{asked.fold}",
    )
