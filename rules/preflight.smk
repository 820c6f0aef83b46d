# Preflight: what would fail on a TPU or a GPU, by its compiler on a machine that has none:
# results/runs/{run}/preflight.json, and results/preflight.txt if all passed.


rule compile_train_step:
    """Compile the steps of training, validation and evaluation for every target, and judge."""
    input:
        **TRAINED_ON,
    output:
        "results/runs/{run}/preflight.json",
    log:
        "logs/compile_train_step/{run}.log",
    benchmark:
        "logs/benchmarks/compile_train_step/{run}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 2
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        targets=settings.preflight.targets,
        training=lambda wildcards: TRAININGS[wildcards.run].for_preflight.as_param("operation"),
        evaluation=lambda wildcards: EVALUATIONS[wildcards.run].for_preflight.as_param(),
        state_directory=lambda wildcards: TRAININGS[wildcards.run].operation.checkpoint.directory,
        code=code_of("preflight", "compile_train_step"),
    script:
        "../scripts/jobs/preflight.py"


rule preflight:
    """Show what the compilers say of every run, and fail if one of them would fail."""
    input:
        reports=expand("results/runs/{run}/preflight.json", run=RUNS),
    output:
        "results/preflight.txt",
    log:
        "logs/preflight/preflight.log",
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=200,
        runtime=5,
    params:
        code=code_of("preflight", "preflight"),
    script:
        "../scripts/jobs/preflight.py"
