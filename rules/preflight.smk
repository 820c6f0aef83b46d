# What would fail, before it costs anything: on a TPU or a GPU, by its compiler on a machine that has none,
# to results/runs/{run}/preflight.json and, if all passed, results/preflight.txt; and here (target check).


rule compile_train_step:
    """Compile the steps of training for every target, and judge."""
    input:
        unpack(data_for_preflight),
        start=checkpoint_of_run,
    output:
        "results/runs/{run}/preflight.json",
    log:
        "logs/compile_train_step/{run}.log",
    conda:
        "../envs/environment.yaml"
    threads: 2
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        targets=settings.preflight.targets,
        training=lambda w: TRAININGS[w.run].for_preflight.as_param("operation"),
        start=lambda w: identities(checkpoint_of_run(w)),
        vocabulary=VOCABULARY,
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
    params:
        code=code_of("preflight", "preflight"),
    script:
        "../scripts/jobs/preflight.py"


# Without an output, not even a benchmark, it is made whenever it is asked for.
rule check:
    """Say what stands in the way of a run and what it will take, from a sample. A target."""
    log:
        "logs/check/check.log",
    conda:
        "../envs/environment.yaml"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=10,
    params:
        settings=settings.as_set(),
        code=code_of("preflight", "check"),
    script:
        "../scripts/jobs/preflight.py"
