"""Rule `pretrain`: train one run's model and export it in the Hugging Face layout.

Started without Snakemake it is one of several processes, and reads from its parent what to train.
"""

from pathlib import Path

from job_adapter import run


def main(job):
    from mlm.config.run import RunConfiguration
    from mlm.training.processes import run_together

    params, operational = job.params, job.params.operational
    common = {
        "accelerator": params.accelerator | operational["processes"],
        "seed": params.seed,
        "sequence_length": params.sequence_length,
        "corpus": params.corpus,
    }
    parent = operational["parent"]
    if parent:
        # What the run that is continued forgets is beside the end of its training.
        parent = common | parent | {"holes": _first(job.input.continued[1:]), "parent": None}
    request = {
        "config": common
        | {
            "name": job.wildcards.run,
            "model": params.model,
            "pretraining": params.pretraining
            | {"checkpoint": operational["checkpoint"]}
            | operational["continue_from"],
            "parent": parent,
            "holes": _first(job.input.holes),
        },
        "files": {
            "tokenizer": str(job.input.tokenizer),
            "manifests": {"train": str(job.input.train), "validation": str(job.input.validation)},
        },
        "results": {
            "model_directory": str(Path(job.output.weights).parent),
            "log": str(job.output.log),
            "summary": str(job.output.summary),
        },
        "push": operational["push"],
        # The results are in a directory of their own until the training has ended.
        "preflight": str(Path(job.output.summary).parent.with_name("preflight.json"))
        if operational["preflight_required"]
        else None,
    }
    accelerator = RunConfiguration.of_param(request["config"]).accelerator
    if accelerator.together:
        run_together(__file__, request, accelerator.processes, accelerator.start)
    else:
        train(request)


def _first(paths):
    return next(iter(map(str, paths)), None)


def train(request):
    """Train in this process: alone, or as one of several that the rule's job has started."""
    from mlm.accelerators.artefacts import require_passed
    from mlm.config.publish import Publish
    from mlm.config.run import RunConfiguration
    from mlm.publishing.background import background_pushes
    from mlm.tokenizer.tokenizer_files import TOKENIZER_FILES
    from mlm.training.pretrain import ResultFiles, prepare, pretrain
    from mlm.training.run import RunFiles

    config, files = RunConfiguration.of_param(request["config"]), RunFiles(**request["files"])
    training = prepare(config, files)
    run, devices = training.run, training.devices
    if request["preflight"] and config.accelerator.kind == "auto" and devices.kind == "tpu":
        computed = {"engine": devices.framework, "precision": devices.precision}
        require_passed(request["preflight"], run.name, computed | run.step_sizes())
    publish = Publish.of_param(request["push"])
    pushed = publish if publish.checkpoints.every and devices.group.leads else None
    beside = tuple(Path(files.tokenizer).parent / name for name in TOKENIZER_FILES)
    with background_pushes(pushed, training.states.path, beside) as pushes:
        pretrain(training, ResultFiles(**request["results"]), [pushes] if pushes else [])


if __name__ == "__main__":
    if "snakemake" in globals():
        run(main, snakemake)
    else:
        from mlm.training.processes import one_of_several

        with one_of_several() as request:
            train(request)
