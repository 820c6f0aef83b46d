"""Pretraining: train one run's model, export it in the Hugging Face layout, and promote it.

Without Snakemake, this script is one of the processes that `run_together` starts for one training:
its argument is the request, in JSON.
"""

from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job


def train(request: dict[str, Any], results: str | None):
    """Train in this process, alone or as one of several; write into `results` unless it is None."""
    from mlm.config.pretraining import RunConfiguration
    from mlm.training.pretrain import prepare, pretrain
    from mlm.training.resolved_run import RunFiles

    config = RunConfiguration.model_validate(request["config"])
    prepared = prepare(config, RunFiles(**request["files"]))
    pretrain(prepared, results)


def train_alone_or_together(request: dict[str, Any], srun: str | None = None):
    """Start `accelerator.processes` that train together, by the command `srun` if the job has one;
    or train in this process, if it is the only one or its peers are started on other hosts."""
    from mlm.config.pretraining import RunConfiguration
    from mlm.training.processes import run_together, started_on_hosts

    accelerator = RunConfiguration.model_validate(request["config"]).accelerator
    if accelerator.together and not started_on_hosts(accelerator):
        run_together(__file__, request, accelerator.processes or 1, srun)
    else:
        train(request, request["results"])


@run_as_job("pretrain")
def pretrain_run(job: Any):
    from mlm.training.artefacts import Training

    inputs, outputs = job.input, job.output
    request = {
        "config": dict(**job.params.training, operation=vars(job.params.operation)),
        "files": {
            "tokenizer": inputs.tokenizer,
            "manifests": {split: inputs[split] for split in ("train", "validation")},
        },
        "results": str(Path(outputs.summary).parent),
    }
    train_alone_or_together(request, job.resources.get("mpi"))
    trained = Training.read(outputs.summary)
    return Done(f"{trained.steps:,} steps, validation loss {trained.final.validation_loss:.3f}")


@run_as_job("keep_model")
def keep_model(job: Any):
    """Copy the files of a finished training to where other rules read them, the record last."""
    import shutil
    from dataclasses import replace

    from mlm.foundations.artefacts import MadeFrom
    from mlm.foundations.atomic import replacing
    from mlm.training.artefacts import Training

    for name, target in job.output.items():
        if name != "summary":
            with replacing(target) as temporary:
                shutil.copyfile(job.input[name], temporary)
    trained = Training.read(job.input.summary)
    # Without the training's record: the frame of this job adds the copy's own when all are copied.
    replace(trained, code=trained.made_from.code, made_from=MadeFrom()).write(job.output.summary)


if __name__ == "__main__" and "snakemake" not in globals():
    from mlm.training.processes import as_member

    as_member(lambda request, is_rank0: train(request, request["results"] if is_rank0 else None))
