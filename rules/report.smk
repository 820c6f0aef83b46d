# The report: one page for people, the same numbers for machines (results/report.json), and the figures.

from mlm.report.wording import FIGURES

# The files of a run that the report is made from.
REPORTED_FILES = {
    "curves": "training.csv",
    **{name: f"{name}.json" for name in ("training", "evaluation", "fill_mask", "preview")},
    **({"preflight": "preflight.json"} if settings.preflight.enabled else {}),
    **({"finetune": "finetune/metrics.json"} if settings.finetune.enabled else {}),
}
# An edited template remakes the page, wherever it lies.
TEMPLATES = sorted(f for f in (BASE / "report").rglob("*.*") if f.suffix != ".rst")


rule report:
    """Show what was trained, on what, how good it is, and where it all came from."""
    input:
        **{
            name: expand("results/runs/{run}/{file}", run=REPORTED_RUNS, file=file)
            for name, file in REPORTED_FILES.items()
        },
        corpus=expand("results/corpus/{split}.json", split=SPLITS),
        tokenizer=["results/tokenizer/tokenizer_stats.json"],
        manifests=expand("results/manifests/{split}.json", split=SPLITS),
        also=source(OTHER_RUNS),
    output:
        page=report("results/report.html", caption="../report/page.rst", category="Report"),
        numbers="results/report.json",
        figures=[
            report(
                f"results/figures/{name}.svg",
                caption=f"../report/{name}.rst",
                category=figure.chapter,
                labels={"figure": figure.heading},
            )
            for name, figure in FIGURES.items()
        ],
    log:
        "logs/report/report.log",
    conda:
        "../envs/environment.yaml"
    params:
        config=settings.shown(),
        also=identities(OTHER_RUNS),
        templates={str(f.relative_to(BASE)): MEMORY.sha256(f) for f in TEMPLATES},
        code=code_of("report", "report"),
    script:
        "../scripts/jobs/report.py"
