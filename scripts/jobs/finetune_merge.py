"""Rule `finetune_merge`: the folds together, beside the baseline, and the best fold's model."""

from pathlib import Path

from job_adapter import run
from mlm.finetuning.results import STARTS, ResultFiles, write_results


def main(job):
    files = ResultFiles(
        examples=job.input.table,
        summary=job.input.summary,
        ridge=job.input.ridge,
        ridge_record=job.input.ridge_record,
        predictions={start: list(job.input[f"{start}_predictions"]) for start in STARTS},
        histories={start: list(job.input[f"{start}_histories"]) for start in STARTS},
        records={start: list(job.input[f"{start}_records"]) for start in STARTS},
        weights=list(job.input.weights),
        tokenizer=list(job.input.tokenizer),
        directory=str(Path(job.output.metrics).parent),
    )
    write_results(job.wildcards.run, job.params.finetune, job.params.seed, files)


if __name__ == "__main__":
    run(main, snakemake)
