"""Rule `pretrain`: train one run's model and export it in the Hugging Face layout."""

from pathlib import Path

from mlm.jobs.job import accelerator_of, run


def main(job):
    from mlm.preflight.gate import require_passed
    from mlm.pretraining.live import LiveSettings, live_page
    from mlm.pretraining.pretraining_job import RunResults, train_and_export
    from mlm.pretraining.run_inputs import RunFiles, RunSettings
    from mlm.publishing.background import PushSettings, background_pushes
    from mlm.tokenizer.tokenizer_files import TOKENIZER_FILES

    operational = job.params.operational
    common = {
        "accelerator": accelerator_of(job),
        "seed": job.params.seed,
        "sequence_length": job.params.sequence_length,
        "corpus": job.params.corpus,
    }
    parent = operational["parent"]
    settings = RunSettings(
        name=job.wildcards.run,
        model=job.params.model,
        pretraining=job.params.pretraining
        | {"checkpoint": operational["checkpoint"]}
        | operational["continue_from"],
        # What the run that is continued forgets stands beside the end of its training.
        parent=RunSettings(**parent, holes=_first(job.input.continued[1:]), **common)
        if parent
        else None,
        holes=_first(job.input.holes),
        **common,
    )
    files = RunFiles(
        tokenizer=job.input.tokenizer,
        manifests={"train": job.input.train, "validation": job.input.validation},
    )
    results = RunResults(
        model_directory=str(Path(job.output.weights).parent),
        log=job.output.log,
        summary=job.output.summary,
    )
    push = operational["push"]
    pushing = PushSettings(**push) if push["every"] else None
    beside = tuple(Path(files.tokenizer).parent / name for name in TOKENIZER_FILES)

    def before_found_tpu(run, step):
        if operational["preflight_required"]:
            # The results stand in a directory of their own until the training has ended.
            preflight = Path(job.output.summary).parent.with_name("preflight.json")
            require_passed(str(preflight), run, step)

    def pushes(state):
        return background_pushes(pushing, state, beside)

    live = operational["live"]
    page = live_page_of(job.output.summary)
    live = LiveSettings(page, **live) if page else None

    def shown(run, framework, state):
        return live_page(live, run, framework, files.tokenizer, state)

    train_and_export(settings, files, results, before_found_tpu, pushes, shown)


def live_page_of(summary):
    """Where the page lies that shows a training: in results/ of the working directory. None where
    `summary`, an output, is a copy of what goes to a bucket."""
    top = Path(summary).parts[0]
    return f"{top}/live.html" if top == "results" else None


def _first(paths):
    return next(iter(paths), None)


if __name__ == "__main__":
    run(main, snakemake)
