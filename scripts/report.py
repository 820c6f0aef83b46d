"""Rule `report`: results/report.html and report.json from the artefacts of every stage."""

from pathlib import Path

from mlm.foundations.code_digests import code_digest
from mlm.jobs.job import run
from mlm.report.page import TEMPLATES, write_report
from mlm.report.report_inputs import (
    Results,
    code_of_stages,
    read_artefact,
    read_benchmarks,
    read_run,
    read_speed,
    read_splits,
)

STAGES = ("training", "curves", "evaluation", "fill_mask")


def main(job):
    """Read what the rule names, in the order of its runs, and write the report."""
    asked = job.params.report
    runs = []
    for i, name in enumerate(job.params.runs):
        files = {stage: job.input[stage][i] for stage in STAGES}
        if job.input.preview:
            files["preview"] = job.input.preview[i]
        extras = {stage: job.input[stage][i] for stage in job.params.extras}
        runs.append(read_run(name, job.params.overrides[name], files, extras))
    tokenizer = None
    if job.input.tokenizer:
        path = job.input.tokenizer[0]
        tokenizer = read_artefact(path, "tokenizer", "results/tokenizer/tokenizer_stats.json")
    corpus = read_splits("corpus", "results/corpus", job.input.corpus)
    manifests = read_splits("manifest", "results/manifests", job.input.manifests)
    speed = dict(zip(job.params.runs, map(read_speed, job.input.curves), strict=True))
    results = Results(
        title=asked["title"],
        sections=list(asked["sections"]),
        config=job.params.config,
        code=code_of_stages(corpus, tokenizer, manifests, runs)
        | {"report": code_digest(job.params.code)},
        corpus=corpus,
        tokenizer=tokenizer,
        manifests=manifests,
        runs=runs,
        cost=read_benchmarks(job.params.benchmarks) if asked["cost"] else [],
        speed=speed if asked["cost"] else {},
    )
    drawings = {Path(path).stem: path for path in job.output.figures}
    write_report(results, TEMPLATES, job.output.page, job.output.numbers, drawings)


if __name__ == "__main__":
    run(main, snakemake)
