"""Rule `fill_mask`: the most probable tokens for the mask of each prompt."""

from dataclasses import asdict
from pathlib import Path

from mlm.evaluation.fill_mask import answers, use_cpu
from mlm.evaluation.rounded_json import write_figures
from mlm.jobs.job import run


def main(job):
    use_cpu(job.params.cpu_threads)
    prompts = job.params.evaluation["prompts"]
    found = answers(Path(job.input.model).parent, prompts, job.params.evaluation["top_k"])
    write_figures(
        job.output[0],
        {
            "run": job.wildcards.run,
            "prompts": [
                {"prompt": prompt, "answers": [asdict(answer) for answer in best]}
                for prompt, best in zip(prompts, found, strict=True)
            ],
        },
    )


if __name__ == "__main__":
    run(main, snakemake)
