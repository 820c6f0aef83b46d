"""Rule `evaluate`: the figures of an exported model on the test split."""

import sys
from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job
from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import CorpusSplit
from mlm.evaluation.bits_by_group import TextOfGroups
from mlm.evaluation.model_evaluation import evaluate
from mlm.evaluation.pair_files import read_pair_files
from mlm.samples.manifests import Manifest, project_root


@run_as_job("evaluate")
def score_model(job: Any):
    manifests = {split: Path(job.input[split]) for split in SPLITS}
    root = project_root(manifests["train"])
    train, test = map(CorpusSplit.read, job.input.corpus)
    figures = evaluate(
        job.wildcards.run,
        Path(job.input.model).parent,
        manifests,
        Evaluation.model_validate(job.params.evaluation),
        Accelerator.model_validate(job.params.accelerator),
        corpus={"train": train, "test": test},
        texts=TextOfGroups.read(Path(job.input.corpus[1]), Manifest.read(job.input.test), root),
        pairs=read_pair_files(job.input.pairs),
        attend=job.params.attend,
        root=root,
        row_samples=job.params.row_samples,
    )
    figures.write(job.output[0])
    scores = f"test loss {figures.test.loss:.3f}, accuracy {figures.test.accuracy:.1%}"
    verdicts = (verdict.text for verdict in figures.verdicts)
    print(f"{job.wildcards.run}: {scores}", *verdicts, sep="\n  ", file=sys.stderr)
    return Done(scores)
