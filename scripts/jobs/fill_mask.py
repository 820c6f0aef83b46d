"""Rule `fill_mask`: the most probable tokens for the mask of each prompt."""

from pathlib import Path

from job_adapter import Done, run_as_job
from mlm.evaluation.artefacts import FillMask
from mlm.evaluation.fill_mask import answers, use_cpu
from mlm.foundations.phrasing import plural


@run_as_job
def main(job):
    use_cpu(job.params.cpu_threads)
    prompts = job.params.evaluation["prompts"]
    found = answers(Path(job.input.model).parent, prompts, job.params.evaluation["top_k"])
    FillMask(job.wildcards.run, found).write(job.output[0])
    return Done(plural(len(found), "prompt"))
