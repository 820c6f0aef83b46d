# From documents to samples of token ids: results/shards/{split}/*.tfrecord, each with a .json beside it,
# and results/manifests/{split}.json, which names them and on which all others depend.


rule shard:
    """Tokenise one contiguous range of a split's documents and pack it into samples."""
    input:
        **TOKENIZER,
        corpus=corpus_files_of_shard,
        described="results/corpus/{split}.json",
    output:
        shard="results/shards/{split}/{split}-{shard}-of-{shards}.tfrecord",
        summary="results/shards/{split}/{split}-{shard}-of-{shards}.json",
    log:
        "logs/shard/{split}-{shard}-{shards}.log",
    benchmark:
        "logs/benchmarks/shard/{split}-{shard}-{shards}.tsv"
    conda:
        "../envs/environment.yaml"
    # Alike for all, for clusters: --groups shard=shards --group-components shards=20
    resources:
        mem_mb=2000,
        runtime=120,
    params:
        shards=settings.shards.only("sequence_length").as_param(),
        code=code_of("samples", "shard"),
    script:
        "../scripts/jobs/samples.py"


rule manifest:
    """Name a split's shards with their counts and digests; see that none is missing."""
    input:
        shards=lambda w: shard_files(w.split),
        summaries=lambda w: shard_files(w.split, "json"),
        described="results/corpus/{split}.json",
        tokenizer="results/tokenizer/tokenizer.json",
        record="results/tokenizer/tokenizer_stats.json",
    output:
        "results/manifests/{split}.json",
    log:
        "logs/manifest/{split}.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=code_of("samples", "manifest"),
    script:
        "../scripts/jobs/samples.py"


rule masked_samples:
    """Decode a few samples of the train split, before and after the run's masking."""
    input:
        **TOKENIZER,
        train="results/manifests/train.json",
        staged=staged_shards("train"),
    output:
        "results/runs/{run}/preview.json",
    log:
        "logs/masked_samples/{run}.log",
    conda:
        "../envs/environment.yaml"
    params:
        pretraining=lambda w: (
            TRAININGS[w.run].pretraining.only("masking", "phases", "shuffle_window").as_param()
        ),
        seed=lambda w: TRAININGS[w.run].training_seed,
        sequence_length=settings.shards.sequence_length,
        code=code_of("samples", "masked_samples"),
    script:
        "../scripts/jobs/samples.py"
