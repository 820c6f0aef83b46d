"""Rule `evaluate`: the figures of an exported model on the test split."""

import sys
from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import CorpusSplit
from mlm.evaluation.model_evaluation import evaluate
from mlm.evaluation.pair_files import Pair, read_pair_files
from mlm.samples.manifests import project_root


@run_as_job("evaluate")
def score_model(job):
    manifests = {split: Path(job.input[split]) for split in SPLITS}
    corpus = dict(zip(("train", "test"), map(CorpusSplit.read, job.input.corpus), strict=True))
    section = Evaluation.model_validate(job.params.evaluation)
    pairs = [*(Pair(*pair) for pair in section.minimal_pairs), *read_pair_files(job.input.pairs)]
    figures = evaluate(
        job.wildcards.run,
        Path(job.input.model).parent,
        manifests,
        {split: described.characters for split, described in corpus.items()},
        section,
        Accelerator.model_validate(job.params.accelerator),
        pairs,
        job.params.attend,
        root=project_root(manifests["train"]),
        corpus=Path(job.input.corpus[1]),
    )
    figures.write(job.output[0])
    hidden = figures.test.hidden
    scores = f"test loss {hidden.loss:.3f}, accuracy {hidden.accuracy:.1%} where hidden"
    verdicts = (verdict.text for verdict in figures.verdicts)
    print(f"{job.wildcards.run}: {scores}", *verdicts, sep="\n  ", file=sys.stderr)
    return Done(scores)
