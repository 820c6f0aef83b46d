"""Rule `fill_mask`: the most probable tokens for the mask of each prompt."""

from pathlib import Path
from typing import Any

from job_adapter import Done, run_as_job
from mlm.evaluation.artefacts import FillMask
from mlm.evaluation.fill_mask import answers
from mlm.foundations.terminal import plural


@run_as_job("fill_mask")
def fill_prompts(job: Any):
    params, model = job.params, Path(job.input.model).parent
    filled = answers(model, params.prompts, top_k=5, cpu_threads=params.cpu_threads)
    FillMask(job.wildcards.run, filled).write(job.output[0])
    return Done(plural(len(filled), "prompt"))
