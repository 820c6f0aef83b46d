"""Which files evaluation.also names, and how they are read; light, for Snakemake."""

from mlm.config.resolution import Settings, model_of_run, run_section
from mlm.corpus.file_patterns import matched_files

#: Settings of the corpus by which its files are read.
_READ = ("text_column", "group_by", "group_per", "encoding", "encoding_errors", "files")
#: Of a training, what is no part of how its model begins.
_LATER = ("checkpoint", "continue_from", "log_to")


def further_texts(settings: Settings, run: str) -> dict:
    """The `files` of evaluation.also of `run` by name, `paths` of them all, what `open_source`
    needs for `reading` them as it would files of the corpus, and how the run's `start` from a
    checkpoint is made; empty without any. MlmError with every problem."""
    also, corpus = run_section(settings, run, "evaluation")["also"], settings["corpus"]
    if not also:
        return {"files": {}, "paths": [], "reading": {}, "start": None}
    files = matched_files(also, key="evaluation.also")
    reading = {"source": "files", "held_out": {}, **{key: corpus[key] for key in _READ}}
    reading["normalisation"] = corpus["filters"]["normalisation"]
    paths = [path for of_text in files.values() for path in of_text]
    model, training = model_of_run(settings, run), run_section(settings, run, "pretraining")
    own = {"model": model, "pretraining": {k: v for k, v in training.items() if k not in _LATER}}
    own |= {"seed": settings["seed"], "sequence_length": settings["shards"]["sequence_length"]}
    own["corpus_source"] = corpus["source"]
    start = own if model.get("start_from") else None
    return {"files": files, "paths": paths, "reading": reading, "start": start}
