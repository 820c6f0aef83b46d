"""Rule `pretrain`: train one run's model and export it in the Hugging Face layout."""

from pathlib import Path

from job_adapter import accelerator_of, run


def main(job):
    import pretrain_together
    from mlm.training.accelerator_settings import AcceleratorSettings
    from mlm.training.processes import run_together

    operational = job.params.operational
    common = {
        "accelerator": accelerator_of(job) | operational["processes"],
        "seed": job.params.seed,
        "sequence_length": job.params.sequence_length,
        "corpus": job.params.corpus,
    }
    parent = operational["parent"]
    trained, page = Path(job.output.summary).parent, live_page_of(job.output.summary)
    request = {
        "settings": common
        | {
            "name": job.wildcards.run,
            "model": job.params.model,
            "pretraining": job.params.pretraining
            | {"checkpoint": operational["checkpoint"]}
            | operational["continue_from"],
            # What the run that is continued forgets stands beside the end of its training.
            "parent": parent and common | parent | {"holes": _first(job.input.continued[1:])},
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
        "live": {"page": page} | operational["live"] if page else None,
        # The results stand in a directory of their own until the training has ended.
        "preflight": str(trained.with_name("preflight.json"))
        if operational["preflight_required"]
        else None,
    }
    asked = AcceleratorSettings.of(common["accelerator"])
    if asked.together:
        run_together(pretrain_together.__file__, request, asked.processes, asked.start)
    else:
        pretrain_together.train(request)


def live_page_of(summary):
    """Where the page lies that shows a training: in results/ of the working directory. None where
    `summary`, an output, is a copy of what goes to a bucket."""
    top = Path(summary).parts[0]
    return f"{top}/live.html" if top == "results" else None


def _first(paths):
    return next(iter(map(str, paths)), None)


if __name__ == "__main__":
    run(main, snakemake)
