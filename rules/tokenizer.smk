# From the corpus to results/tokenizer/: the tokenizer in three files, and tokenizer_stats.json.
from mlm.config.memory_of_jobs import memory_of_tokenizer
from mlm.config.configuration import families_of


rule tokenizer:
    """Train the tokenizer on the train split, or take a pretrained one, and measure it."""
    input:
        corpus=[file for split in SPLITS for file in corpus_files(split)],
        records=expand("results/corpus/{split}.json", split=SPLITS),
        pretrained=source(TOKENIZER_SOURCE),
    output:
        tokenizer="results/tokenizer/tokenizer.json",
        config="results/tokenizer/tokenizer_config.json",
        special="results/tokenizer/special_tokens_map.json",
        stats="results/tokenizer/tokenizer_stats.json",
    log:
        "logs/tokenizer/tokenizer.log",
    benchmark:
        "logs/benchmarks/tokenizer/tokenizer.tsv"
    conda:
        "../envs/environment.yaml"
    threads: settings.tokenizer.training_threads
    resources:
        # Parquet is about a third of the text.
        mem_mb=lambda w, input: memory_of_tokenizer(settings.tokenizer, 3 * input.size),
        runtime=240,
    params:
        files=identities(TOKENIZER_SOURCE),
        tokenizer=settings.tokenizer.as_param(),
        # Model types that will read the ids; those of a tokenizer trained here suit all.
        families=families_of(settings) if settings.tokenizer.kind == "pretrained" else [],
        code=code_of("tokenizer", "tokenizer"),
    script:
        "../scripts/jobs/tokenizer.py"
