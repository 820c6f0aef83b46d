# The index of the corpus for scripts/ask.py: results/index/.


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
