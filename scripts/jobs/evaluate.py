"""Rule `evaluate`: the figures of an exported model on the test split."""

import sys
from pathlib import Path

from job_adapter import run
from mlm.config.evaluation import Evaluation
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.groups import OWN
from mlm.evaluation.model_evaluation import Paths, evaluate
from mlm.samples.manifests import Manifest, shards_root


def main(job):
    paths = Paths(
        model=Path(job.input.model).parent,
        manifests={split: Path(job.input[split]) for split in ("train", "validation", "test")},
        root=shards_root(Manifest.read(job.input.train), job.input.train),
    )
    corpus = {
        split: CorpusSplit.read(path)
        for split, path in zip(("train", "test"), job.input.corpus, strict=False)
    }
    characters = {split: described.characters for split, described in corpus.items()}
    carved = (
        bool(corpus)
        and corpus["test"].source.carved_from is not None
        and corpus["test"].group_by == OWN
    )
    figures = evaluate(
        job.wildcards.run,
        paths,
        characters,
        Evaluation.of_param(job.params.evaluation),
        job.params.accelerator | {"tpu": job.params.operational["tpu"]},
        job.params.pretraining["attend"],
        carved,
    )
    figures.write(job.output[0])
    print(
        f"{job.wildcards.run}: test loss {figures.test.loss:.3f}, "
        f"accuracy {figures.test.accuracy:.1%}",
        *(verdict.text for verdict in figures.verdicts),
        sep="\n  ",
        file=sys.stderr,
    )


if __name__ == "__main__":
    run(main, snakemake)
