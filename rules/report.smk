# The report: one page for people, the same numbers for machines, and the figures.
# Requires results/corpus/{split}.json, results/tokenizer/tokenizer_stats.json,
# results/manifests/{split}.json, and training.csv and .json, evaluation.json, fill_mask.json
# and preview.json below results/runs/{run}/.
# Gives results/report.html, results/report.json and results/figures/*.svg.
from mlm.code_digest import code_digest
from mlm.report_catalogue import FIGURES

REPORTED_RUNS = settings["report"]["runs"] or sorted(RUNS)
FROM_CORPUS = settings["shards"]["source"] == "corpus"
# Stages that run only when asked, whose results/runs/{run}/<name>.json the report then shows.
REPORT_EXTRAS = []


def report_templates(*patterns):
    """Files of the repository's directory report/, as inputs: an edit remakes the page."""
    found = [f for p in patterns for f in sorted((BASE / "report").glob(p))]
    if Path.cwd() == BASE:
        found = [f.relative_to(BASE) for f in found]
    return [local(str(f)) for f in found]


def of_reported_runs(name):
    """The file `name` of every run that the report shows, in its order."""
    return expand(f"results/runs/{{run}}/{name}", run=REPORTED_RUNS)


rule report:
    """Show what was trained, on what, how good it is, and where it all came from."""
    input:
        **{extra: of_reported_runs(f"{extra}.json") for extra in REPORT_EXTRAS},
        code=code("report"),
        page=report_templates("page.html.j2"),
        templates=report_templates("macros.html.j2", "style.css", "sections/*.j2"),
        corpus=expand("results/corpus/{split}.json", split=SPLITS) if FROM_CORPUS else [],
        tokenizer=["results/tokenizer/tokenizer_stats.json"] if FROM_CORPUS else [],
        manifests=expand("results/manifests/{split}.json", split=SPLITS),
        preview=of_reported_runs("preview.json"),
        training=of_reported_runs("training.json"),
        curves=of_reported_runs("training.csv"),
        evaluation=of_reported_runs("evaluation.json"),
        fill_mask=of_reported_runs("fill_mask.json"),
    output:
        page=report("results/report.html", caption="../report/page.rst", category="Report"),
        numbers="results/report.json",
        figures=[
            report(
                f"results/figures/{name}.svg",
                caption=f"../report/{name}.rst",
                category=category,
                labels={"figure": FIGURES[name][1]},
            )
            for name, (category, _) in FIGURES.items()
        ],
    log:
        "logs/report/report.log",
    benchmark:
        "logs/benchmarks/report/report.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        report=canonical(settings["report"]),
        runs=REPORTED_RUNS,
        extras=REPORT_EXTRAS,
        overrides=canonical({run: settings["runs"][run] for run in REPORTED_RUNS}),
        config=canonical(settings),
        digests={
            stage: code_digest(BASE / "scripts", stage)
            for stage in "corpus tokenizer shard manifest pretrain evaluate fill_mask report".split()
        },
        benchmarks="logs/benchmarks",
    script:
        "../scripts/report.py"
