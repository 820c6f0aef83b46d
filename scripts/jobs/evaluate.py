"""An exported model: its figures on the test split, and the tokens that it fills in."""

import sys
from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job


@run_as_job("evaluate")
def score_model(job: Any):
    from mlm.config.accelerator import Accelerator
    from mlm.config.evaluation import Evaluation
    from mlm.config.fields import SPLITS
    from mlm.corpus.artefacts import CorpusSplit
    from mlm.evaluation.bits_by_group import TextOfGroups
    from mlm.evaluation.minimal_pair_files import read_pair_files
    from mlm.evaluation.model_evaluation import Evaluated, evaluate
    from mlm.samples.manifests import Manifest, project_root

    inputs, params, run = job.input, job.params, job.wildcards.run
    manifests = {split: Path(inputs[split]) for split in SPLITS}
    root = project_root(manifests["train"])
    train, test = map(CorpusSplit.read, inputs.corpus)
    evaluated = Evaluated(
        manifests,
        corpus={"train": train, "test": test},
        texts=TextOfGroups.read(Path(inputs.corpus[1]), Manifest.read(inputs.test), root),
        pairs=read_pair_files(inputs.pairs),
        attend=params.attend,
        root=root,
        row_samples=params.row_samples,
    )
    section = Evaluation.model_validate(params.evaluation)
    accelerator = Accelerator.model_validate(params.accelerator)
    figures = evaluate(run, Path(inputs.model).parent, section, accelerator, evaluated)
    figures.write(job.output[0])
    scores = f"test loss {figures.test.loss:.3f}, accuracy {figures.test.accuracy:.1%}"
    verdicts = (verdict.text for verdict in figures.verdicts)
    print(f"{run}: {scores}", *verdicts, sep="\n  ", file=sys.stderr)
    return Done(scores)


@run_as_job("fill_mask")
def fill_prompts(job: Any):
    """Write the most probable tokens for the mask of each prompt."""
    from mlm.evaluation.artefacts import FillMask
    from mlm.evaluation.fill_mask import answers
    from mlm.foundations.terminal import plural

    params, model = job.params, Path(job.input.model).parent
    filled = answers(model, params.prompts, top_k=5, cpu_threads=params.cpu_threads)
    FillMask(job.wildcards.run, filled).write(job.output[0])
    return Done(plural(len(filled), "prompt"))
