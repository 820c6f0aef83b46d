# What stands in the way of a run.


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
        given=canonical(settings.given),
        code=code_of("check", "check"),
    script:
        "../scripts/jobs/check.py"
