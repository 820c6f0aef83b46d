"""Rule `evaluate`: the figures of an exported model on the whole test split."""

import sys
from pathlib import Path

from mlm.evaluation.evaluation_settings import EvaluationSettings
from mlm.evaluation.model_evaluation import Paths, evaluate
from mlm.evaluation.rounded_json import write_figures
from mlm.jobs.job import accelerator_of, run
from mlm.results.artefacts import read_artefact
from mlm.shards.manifests import read_manifest, shards_root


def main(job):
    paths = Paths(
        model=Path(job.input.model).parent,
        manifests={split: Path(job.input[split]) for split in ("train", "validation", "test")},
        root=shards_root(read_manifest(job.input.train), job.input.train),
    )
    corpus = {
        split: read_artefact(path)
        for split, path in zip(("train", "test"), job.input.corpus, strict=False)
    }
    characters = {split: described["characters"] for split, described in corpus.items()}
    carved = "carved_from" in corpus["test"]["source"] if corpus else False
    settings = EvaluationSettings.of(job.params.evaluation, accelerator_of(job))
    figures = evaluate(job.wildcards.run, paths, characters, settings, carved)
    write_figures(job.output[0], figures)
    test = figures["test"]
    print(
        f"{job.wildcards.run}: test loss {test['loss']:.3f}, accuracy {test['accuracy']:.1%}",
        *figures["verdicts"],
        sep="\n  ",
        file=sys.stderr,
    )


if __name__ == "__main__":
    run(main, snakemake)
