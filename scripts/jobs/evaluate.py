"""Rule `evaluate`: the figures of an exported model on the test split."""

import sys
from functools import partial
from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.config.evaluation import Evaluation
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import CorpusSplit
from mlm.evaluation.model_evaluation import evaluate
from mlm.evaluation.pair_files import Pair, read_pair_files
from mlm.samples.manifests import project_root


def model_before(job):
    """The model before its first step, made on the devices of the evaluation."""
    from mlm.config.accelerator import Accelerator
    from mlm.config.resolution import RunConfiguration
    from mlm.training.artefacts import Training
    from mlm.training.run import RunFiles
    from mlm.training.starting_model import starting_model

    exact = job.params.accelerator | {"precision": "float32", "deterministic": True}
    devices = Accelerator(**exact).model_dump()
    own = job.params.also["start"] | {"name": job.wildcards.run, "accelerator": devices}
    manifests = {split: job.input[split] for split in ("train", "validation")}
    files = RunFiles(str(Path(job.input.model).with_name("tokenizer.json")), manifests)
    began = Training.read(job.input.training).warm_start
    return starting_model(RunConfiguration.of_param(own), files, began.sha256)


@run_as_job
def main(job):
    manifests = {split: Path(job.input[split]) for split in SPLITS}
    corpus = dict(zip(("train", "test"), map(CorpusSplit.read, job.input.corpus), strict=True))
    section = Evaluation.of_param(job.params.evaluation)
    pairs = [*(Pair(*pair) for pair in section.minimal_pairs), *read_pair_files(job.input.pairs)]
    figures = evaluate(
        job.wildcards.run,
        Path(job.input.model).parent,
        manifests,
        {split: described.characters for split, described in corpus.items()},
        section,
        job.params.accelerator,
        pairs,
        job.params.pretraining["attend"],
        root=project_root(manifests["train"]),
        corpus=Path(job.input.corpus[1]),
        further=job.params.also,
        start=partial(model_before, job) if job.params.also["start"] else None,
    )
    figures.write(job.output[0])
    hidden = figures.test.hidden
    scores = f"test loss {hidden.loss:.3f}, accuracy {hidden.accuracy:.1%} where hidden"
    verdicts = (verdict.text for verdict in figures.verdicts)
    print(f"{job.wildcards.run}: {scores}", *verdicts, sep="\n  ", file=sys.stderr)
    return Done(scores)
