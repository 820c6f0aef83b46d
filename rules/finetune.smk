# Fine-tuning each run's model, beside random weights, a counting baseline and published encoders on
# the same folds: results/finetune/ (examples, baseline, published/), results/runs/{run}/finetune/.

FINETUNE_RULES = [
    f"finetune_{name}" for name in ("data", "baseline", "fold", "published", "model", "merge")
]
FINETUNE_DATA = settings.finetune.data
FINETUNE_FILES = [FINETUNE_DATA.file] if FINETUNE_DATA.source != "embedded" else []
FOLD_FILES = {"predictions": "predictions.csv", "record": "fold.json", "history": "history.csv"}
# Where the folds of each start are.
FOLDS_OF = {start: f"results/runs/{{run}}/finetune/{start}" for start in FINETUNE_STARTS} | {
    label: f"results/finetune/published/{label}" for label in FINETUNE_ALSO
}


rule finetune_data:
    """Choose the labelled passages and deal them to the folds."""
    input:
        file=source(FINETUNE_FILES),
    output:
        table="results/finetune/examples.csv",
        summary="results/finetune/examples.json",
    log:
        "logs/finetune_data/finetune_data.log",
    conda:
        "../envs/environment.yaml"
    params:
        files=identities(FINETUNE_FILES),
        finetune=settings.finetune.for_examples.as_param(),
        seed=settings.seed,
        code=code_of("finetune", "finetune_data"),
    script:
        "../scripts/jobs/finetune.py"


rule finetune_baseline:
    """Predict every fold with TF-IDF and ridge regression, tuned on the other folds."""
    input:
        table="results/finetune/examples.csv",
    output:
        predictions="results/finetune/baseline.csv",
        record="results/finetune/baseline.json",
    log:
        "logs/finetune_baseline/finetune_baseline.log",
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=3000,
        runtime=60,
    params:
        task=settings.finetune.task,
        folds=settings.finetune.folds,
        code=code_of("finetune", "finetune_baseline"),
    script:
        "../scripts/jobs/finetune.py"


rule finetune_fold:
    """Train on all folds but one, from pretrained, random or published weights."""
    input:
        **MODEL_FILES,
        table="results/finetune/examples.csv",
    output:
        **in_directory("results/runs/{run}/finetune/{start}/fold-{fold}", FOLD_FILES),
    log:
        "logs/finetune_fold/{run}-{start}-{fold}.log",
    conda:
        "../envs/environment.yaml"
    threads: settings.finetune.cpu_threads
    resources:
        mem_mb=lambda w, input: int(2000 + 8 * input.size_mb),
        runtime=240,
    params:
        finetune=settings.finetune.for_folds.as_param(),
        seed=settings.seed,
        accelerator=settings.accelerator.for_fold(settings.finetune.cpu_threads).as_param(),
        code=code_of("finetune", "finetune_fold"),
    script:
        "../scripts/jobs/finetune.py"


use rule finetune_fold as finetune_published with:
    input:
        table="results/finetune/examples.csv",
        files=lambda w: source(checkpoint_files(FINETUNE_ALSO[w.encoder])),
    output:
        **in_directory("results/finetune/published/{encoder}/fold-{fold}", FOLD_FILES),
    log:
        "logs/finetune_published/{encoder}-{fold}.log",
    params:
        encoder=lambda w: FINETUNE_ALSO[w.encoder],
        files=lambda w: identities(checkpoint_files(FINETUNE_ALSO[w.encoder])),
        code=code_of("finetune", "finetune_published"),


use rule finetune_fold as finetune_model with:
    output:
        weights="results/runs/{run}/finetune/model/model.safetensors",
        config="results/runs/{run}/finetune/model/config.json",
        tokenizer=[f"results/runs/{{run}}/finetune/model/{name}" for name in TOKENIZER_NAMES],
        record="results/runs/{run}/finetune/fold.json",
        history="results/runs/{run}/finetune/history.csv",
    log:
        "logs/finetune_model/{run}.log",
    benchmark:
        "logs/benchmarks/finetune_model/{run}.tsv"
    params:
        code=code_of("finetune", "finetune_model"),


rule finetune_merge:
    """Score the folds together, compare them, and describe the model to use."""
    input:
        **{
            f"{start}_{name}": expand(
                f"{place}/fold-{{fold}}/{FOLD_FILES[name]}",
                fold=FINETUNE_FOLDS,
                allow_missing=True,
            )
            for start, place in FOLDS_OF.items()
            for name in ("predictions", "record")
        },
        table="results/finetune/examples.csv",
        summary="results/finetune/examples.json",
        baseline="results/finetune/baseline.csv",
        baseline_record="results/finetune/baseline.json",
        weights="results/runs/{run}/finetune/model/model.safetensors",
        config="results/runs/{run}/finetune/model/config.json",
        record="results/runs/{run}/finetune/fold.json",
    output:
        metrics="results/runs/{run}/finetune/metrics.json",
        oof="results/runs/{run}/finetune/oof.csv",
        card="results/runs/{run}/finetune/model/README.md",
    log:
        "logs/finetune_merge/{run}.log",
    conda:
        "../envs/environment.yaml"
    params:
        finetune=settings.finetune.for_folds.as_param(),
        starts=list(FOLDS_OF),
        code=code_of("finetune", "finetune_merge"),
    script:
        "../scripts/jobs/finetune.py"


rule finetune:
    """Fine-tune every run on every fold, compare, and show it where the report is asked to."""
    input:
        made_by(*FINETUNE_RULES),
        "results/report.html" if settings.finetune.enabled else [],
