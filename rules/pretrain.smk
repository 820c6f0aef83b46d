# Pretraining: from shards to results/runs/{run}/; trained/ has what was just made, state/ checkpoints.


rule pretrain:
    """Train a masked language model, into a directory of its own."""
    input:
        **TRAINED_ON,
        staged=staged_shards("train", "validation"),
        tokenizer_config="results/tokenizer/tokenizer_config.json",
        special_tokens_map="results/tokenizer/special_tokens_map.json",
        start=start_files_of,
        continued=summary_of_continued_run,
    output:
        **{name: f"results/runs/{{run}}/trained/{file}" for name, file in TRAINED_FILES.items()},
    log:
        "logs/pretrain/{run}.log",
    benchmark:
        "logs/benchmarks/pretrain/{run}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 2
    resources:
        mem_mb=lambda wildcards, input: memory.memory_of_training(
            settings, wildcards.run, stored_tokens(input.train)
        ),
        runtime=720,
    params:
        model=model_of,
        start=lambda wildcards: identities(start_files_of(wildcards)),
        pretraining=pretraining_of,
        seed=settings["seed"],
        # How many processes there are decides the size of a batch, and how sums are rounded.
        accelerator=of_section(
            "accelerator",
            *("cpu_threads", "deterministic", "kind", "precision", "processes"),
            "virtual_replicas",
        ),
        sequence_length=settings["shards"]["sequence_length"],
        corpus=settings["corpus"]["source"],
        operational=operational(
            checkpoint=checkpointing_of,
            continue_from=of_run("pretraining", "continue_from"),
            parent=continuation_of,
        ),
        code=code_of("pretrain", "pretrain"),
    script:
        "../scripts/jobs/pretrain.py"


rule keep_model:
    """Put a finished training where everything reads it: the model before it stays until then."""
    input:
        **{name: f"results/runs/{{run}}/trained/{file}" for name, file in TRAINED_FILES.items()},
    output:
        **{name: f"results/runs/{{run}}/{file}" for name, file in TRAINED_FILES.items()},
    log:
        "logs/keep_model/{run}.log",
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=500,
        runtime=30,
    params:
        code=code_of("pretrain", "keep_model"),
    script:
        "../scripts/jobs/pretrain.py"
