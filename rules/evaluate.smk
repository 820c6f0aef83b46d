# From a run's model and the test split to its evaluation.json and fill_mask.json.
from mlm.config.memory_of_jobs import memory_of_evaluation


rule evaluate:
    """Score an exported model on every token of the test split."""
    input:
        **MODEL_FILES,
        **{split: f"results/manifests/{split}.json" for split in SPLITS},
        staged=staged_shards(*SPLITS),
        pairs=lambda w: source(EVALUATIONS[w.run].minimal_pair_files),
        corpus=[f"results/corpus/{split}.json" for split in ("train", "test")],
        texts=corpus_files("test"),
    output:
        "results/runs/{run}/evaluation.json",
    log:
        "logs/evaluate/{run}.log",
    benchmark:
        "logs/benchmarks/evaluate/{run}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: settings.accelerator.cpu_threads
    resources:
        mem_mb=lambda w, input: memory_of_evaluation(
            TRAININGS[w.run], EVALUATIONS[w.run], VOCABULARY, stored_tokens(input.train)
        ),
        runtime=120,
    params:
        evaluation=lambda w: EVALUATIONS[w.run].as_param("prompts"),
        files=lambda w: identities(EVALUATIONS[w.run].minimal_pair_files),
        attend=lambda w: TRAININGS[w.run].pretraining.attend,
        row_samples=lambda w: TRAININGS[w.run].last_row_samples,
        accelerator=settings.accelerator.for_evaluation.as_param(),
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
    conda:
        "../envs/environment.yaml"
    params:
        prompts=lambda w: EVALUATIONS[w.run].prompts,
        cpu_threads=settings.accelerator.cpu_threads,
        code=code_of("evaluate", "fill_mask"),
    script:
        "../scripts/jobs/evaluate.py"
