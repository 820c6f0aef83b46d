"""Rule `evaluate`: the figures of an exported model on the test split."""

import sys
from pathlib import Path

from job_adapter import run_as_job
from mlm.config.evaluation import Evaluation
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.document_groups import OWN
from mlm.evaluation.model_evaluation import evaluate
from mlm.samples.manifests import Manifest, shards_root


@run_as_job
def main(job):
    manifests = {split: Path(job.input[split]) for split in SPLITS}
    corpus = dict(zip(("train", "test"), map(CorpusSplit.read, job.input.corpus), strict=False))
    test = corpus.get("test")
    figures = evaluate(
        job.wildcards.run,
        Path(job.input.model).parent,
        manifests,
        {split: described.characters for split, described in corpus.items()},
        Evaluation.of_param(job.params.evaluation),
        job.params.accelerator,
        job.params.pretraining["attend"],
        carved=bool(test) and test.source.carved_from is not None and test.group_by == OWN,
        root=shards_root(Manifest.read(manifests["train"]), manifests["train"]),
    )
    figures.write(job.output[0])
    scores = f"test loss {figures.test.loss:.3f}, accuracy {figures.test.accuracy:.1%}"
    verdicts = (verdict.text for verdict in figures.verdicts)
    print(f"{job.wildcards.run}: {scores}", *verdicts, sep="\n  ", file=sys.stderr)
