# From a run's model and the test split to its evaluation.json and fill_mask.json.


rule evaluate:
    """Score an exported model on the test split with fixed masks."""
    input:
        **MODEL_FILES,
        **{split: f"results/manifests/{split}.json" for split in SPLITS},
        staged=staged_shards("train", "validation", "test"),
        pairs=lambda wildcards: source(PAIR_FILES[wildcards.run]),
        corpus=[f"results/corpus/{s}.json" for s in ("train", "test")],
        texts=corpus_files("test"),
    output:
        "results/runs/{run}/evaluation.json",
    log:
        "logs/evaluate/{run}.log",
    benchmark:
        "logs/benchmarks/evaluate/{run}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 2
    resources:
        mem_mb=lambda wildcards, input: memory.memory_of_evaluation(
            settings, wildcards.run, stored_tokens(input.train), stored_tokens(input.test)
        ),
        runtime=120,
    params:
        evaluation=of_run("evaluation", without=("prompts",)),
        files=lambda w: identities(PAIR_FILES[w.run]),
        pretraining=of_run("pretraining", "attend"),
        accelerator=of_section("accelerator", "cpu_threads", "kind", "virtual_replicas"),
        code=code_of("evaluate", "evaluate"),
    script:
        "../scripts/jobs/evaluate.py"


rule fill_mask:
    """Let an exported model fill the mask of each prompt."""
    input:
        **MODEL_FILES,
    output:
        "results/runs/{run}/fill_mask.json",
    log:
        "logs/fill_mask/{run}.log",
    benchmark:
        "logs/benchmarks/fill_mask/{run}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        evaluation=of_run("evaluation", "prompts"),
        cpu_threads=settings["accelerator"]["cpu_threads"],
        code=code_of("fill_mask", "fill_mask"),
    script:
        "../scripts/jobs/fill_mask.py"
