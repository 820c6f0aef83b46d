# What a training was shown: results/runs/{run}/asked.json, and results/index/ for scripts/ask.py.


rule asked:
    """Look up what a training was shown near the prompts of its report."""
    input:
        **TOKENIZER,
        training="results/runs/{run}/training.json",
        fill_mask="results/runs/{run}/fill_mask.json",
        corpus="results/corpus/train.json",
        text=corpus_files("train"),
        manifest="results/manifests/train.json",
        staged=staged_shards("train"),
    output:
        "results/runs/{run}/asked.json",
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        filters=canonical(settings["corpus"]["filters"]),
    script:
        "../scripts/jobs/asked.py"


rule index_split:
    """Index the words of a split by document."""
    input:
        corpus=lambda wildcards: corpus_files(wildcards.split),
        described="results/corpus/{split}.json",
    output:
        index="results/index/{split}.sqlite",
        record="results/index/{split}.json",
    resources:
        mem_mb=1000,
        runtime=240,
    script:
        "../scripts/jobs/index_split.py"


rule index:
    """Index all splits. A target."""
    input:
        INDEXES,
