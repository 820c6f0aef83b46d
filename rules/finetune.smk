# Fine-tuning each run's model, beside random weights, a counting baseline and published encoders on
# the same folds: results/finetune/ (examples, baseline, published/), results/runs/{run}/finetune/.


FINETUNE = settings["finetune"]
FINETUNE_FILES = [FINETUNE["data"]["file"]] if FINETUNE["data"]["source"] == "csv" else []
FINETUNE_MODEL = ["config.json", "model.safetensors", *TOKENIZER_NAMES, "README.md"]

FOLD_TABLES = {"predictions": "predictions.csv", "history": "history.csv", "record": "fold.json"}
FOLD_FILES = FOLD_TABLES | {"weights": "model.safetensors", "config": "config.json"}
FOLDS_OF = {start: f"results/runs/{{run}}/finetune/{start}" for start in FINETUNE_STARTS}
FOLDS_OF |= {label: f"results/finetune/published/{label}" for label in FINETUNE_ALSO}
fold_of = lambda place: {n: f"{place}/fold-{{fold}}/{file}" for n, file in FOLD_FILES.items()}
# The file `name` of every fold of `start`, in order.
of_folds = lambda start, name: [f"{FOLDS_OF[start]}/fold-{i}/{name}" for i in FINETUNE_FOLDS]
encoder_files = lambda wildcards: checkpoint_files(FINETUNE_ALSO[wildcards.encoder])


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
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        files=identities(FINETUNE_FILES),
        finetune=of_section("finetune", "data", "folds", "task"),
        seed=settings["seed"],
        # How pretraining divided the speeches, where it read them.
        pretraining=(
            canonical({"held_out": settings["corpus"]["held_out"], "seed": settings["seed"]})
            if settings["corpus"]["source"] == "embedded"
            else {}
        ),
        code=code_of("finetune", "finetune_data"),
    script:
        "../scripts/jobs/finetune.py"


rule finetune_ridge:
    """Predict every fold with TF-IDF and ridge regression, tuned on the other folds."""
    input:
        table="results/finetune/examples.csv",
    output:
        predictions="results/finetune/tfidf_ridge.csv",
        record="results/finetune/tfidf_ridge.json",
    log:
        "logs/finetune_ridge/finetune_ridge.log",
    benchmark:
        "logs/benchmarks/finetune_ridge/finetune_ridge.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=3000,
        runtime=60,
    params:
        task=FINETUNE["task"],
        folds=FINETUNE["folds"],
        code=code_of("finetune", "finetune_ridge"),
    script:
        "../scripts/jobs/finetune.py"


rule finetune_fold:
    """Train on all folds but one with every seed, from pretrained, random or published weights."""
    input:
        **MODEL_FILES,
        table="results/finetune/examples.csv",
    output:
        **fold_of("results/runs/{run}/finetune/{start}"),
    log:
        "logs/finetune_fold/{run}-{start}-{fold}.log",
    benchmark:
        "logs/benchmarks/finetune_fold/{run}-{start}-{fold}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: FINETUNE["cpu_threads"]
    resources:
        mem_mb=lambda wildcards, input: int(2000 + 8 * input.size_mb),
        runtime=240,
    params:
        finetune=of_section("finetune", *FINETUNE_STEP, "cpu_threads", "folds", "seeds"),
        seed=settings["seed"],
        accelerator=of_section("accelerator", "kind", "precision", "virtual_replicas"),
        code=code_of("finetune", "finetune_fold"),
    script:
        "../scripts/jobs/finetune.py"


use rule finetune_fold as finetune_published with:
    input:
        table="results/finetune/examples.csv",
        files=lambda wildcards: source(encoder_files(wildcards)),
    output:
        **fold_of("results/finetune/published/{encoder}"),
    log:
        "logs/finetune_published/{encoder}-{fold}.log",
    benchmark:
        "logs/benchmarks/finetune_published/{encoder}-{fold}.tsv"
    params:
        encoder=lambda wildcards: FINETUNE_ALSO[wildcards.encoder],
        files=lambda wildcards: identities(encoder_files(wildcards)),
        code=code_of("finetune", "finetune_published"),


rule finetune_merge:
    """Score the folds together, compare them, and keep the best fold's model."""
    input:
        **{f"{s}_{n}": of_folds(s, file) for s in FOLDS_OF for n, file in FOLD_TABLES.items()},
        table="results/finetune/examples.csv",
        summary="results/finetune/examples.json",
        ridge="results/finetune/tfidf_ridge.csv",
        ridge_record="results/finetune/tfidf_ridge.json",
        weights=of_folds("pretrained", "model.safetensors"),
        configs=of_folds("pretrained", "config.json"),
        tokenizer=[f"results/runs/{{run}}/model/{name}" for name in FINETUNE_MODEL[2:5]],
        training="results/runs/{run}/training.json",
    output:
        metrics="results/runs/{run}/finetune/metrics.json",
        oof="results/runs/{run}/finetune/oof.csv",
        oof_random="results/runs/{run}/finetune/oof_random.csv",
        oof_ridge="results/runs/{run}/finetune/oof_tfidf_ridge.csv",
        history="results/runs/{run}/finetune/history.csv",
        history_random="results/runs/{run}/finetune/history_random.csv",
        model=[f"results/runs/{{run}}/finetune/model/{name}" for name in FINETUNE_MODEL],
    log:
        "logs/finetune_merge/{run}.log",
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        finetune=of_section(
            "finetune",
            *("epochs", "folds", "learning_rate", "max_length"),
            *("per_device_batch_size", "seeds", "task"),
        ),
        seed=settings["seed"],
        also=list(FINETUNE_ALSO),
        code=code_of("finetune", "finetune_merge"),
    script:
        "../scripts/jobs/finetune.py"


rule finetune:
    """Fine-tune every run on every fold, compare, and show it where the report is asked to."""
    input:
        made_by(*FINETUNE_RULES),
        "results/report.html" if FINETUNE["enabled"] else [],
