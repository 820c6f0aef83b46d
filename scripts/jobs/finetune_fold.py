"""Rule `finetune_fold`: one fold, from the pretrained weights or from random ones."""

from pathlib import Path

from job_adapter import run
from mlm.finetuning.fold_training import FoldFiles, FoldSettings, finetune_fold
from mlm.finetuning.tables import read_history
from mlm.finetuning.wandb_log import WandbSettings, log_epochs


def main(job):
    name = f"{job.wildcards.start}-fold-{job.wildcards.fold}"
    settings = FoldSettings(
        run=job.wildcards.run,
        start=job.wildcards.start,
        fold=int(job.wildcards.fold),
        seed=job.params.seed,
        finetune=job.params.finetune,
        accelerator=job.params.accelerator,
    )
    files = FoldFiles(
        examples=job.input.table,
        model=str(Path(job.input.model).parent),
        predictions=job.output.predictions,
        history=job.output.history,
        weights=job.output.weights,
        record=job.output.record,
        state=f"state/{job.wildcards.run}/finetune/{name}",
    )
    finetune_fold(settings, files)
    wandb = job.params.operational["wandb"]
    log = WandbSettings(wandb["mode"], wandb["project"], f"state/{job.wildcards.run}/wandb")
    rows = read_history(files.history)
    for seed in sorted({row.seed for row in rows}):
        config = dict(job.params.finetune) | {"training": seed}
        mine = [row for row in rows if row.seed == seed]
        log_epochs(log, job.wildcards.run, f"{name}-seed-{seed}", config, mine)


if __name__ == "__main__":
    run(main, snakemake)
