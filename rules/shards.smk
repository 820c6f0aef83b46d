# Documents to fixed-length samples of token ids, in TFRecord files.
#
# Requires results/corpus/{split}.parquet (column `text`, one document a row) and
#          results/tokenizer/{tokenizer,tokenizer_config,special_tokens_map}.json
# Gives    results/shards/{split}/{split}-{shard}-of-{shards}.tfrecord and a sidecar .json,
#          results/manifests/{split}.json (names every shard: what consumers depend on)

TOKENIZER_FILES = [
    f"results/tokenizer/{name}.json"
    for name in ("tokenizer", "tokenizer_config", "special_tokens_map")
]


rule shard:
    """Tokenise one contiguous range of a split's documents and pack it into samples."""
    input:
        corpus="results/corpus/{split}.parquet",
        tokenizer=TOKENIZER_FILES[0],
        tokenizer_settings=TOKENIZER_FILES[1:],
        code=code("shard"),
    output:
        shard="results/shards/{split}/{split}-{shard}-of-{shards}.tfrecord",
        summary="results/shards/{split}/{split}-{shard}-of-{shards}.json",
    log:
        "logs/shard/{split}-{shard}-of-{shards}.log",
    benchmark:
        "logs/benchmarks/shard/{split}-{shard}-of-{shards}.tsv"
    wildcard_constraints:
        shards=r"\d{5}",
    conda:
        "../envs/environment.yaml"
    threads: 1
    # Alike for all shards, so that a cluster can take several as one group:
    # --groups shard=shards --group-components shards=20
    resources:
        mem_mb=1000,
        runtime=120,
    params:
        samples=canonical({k: settings["shards"][k] for k in ("sequence_length", "compression")}),
        read_batch=settings["shards"]["read_batch"],
    script:
        "../scripts/shard.py"


rule manifest:
    """Name a split's shards with their counts and digests, and check that none is missing."""
    input:
        shards=lambda wildcards: shard_files(wildcards.split),
        summaries=lambda wildcards: shard_files(wildcards.split, "json"),
        corpus="results/corpus/{split}.parquet",
        tokenizer=TOKENIZER_FILES[0],
        code=code("manifest"),
    output:
        "results/manifests/{split}.json",
    log:
        "logs/manifest/{split}.log",
    benchmark:
        "logs/benchmarks/manifest/{split}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=30,
    script:
        "../scripts/manifest.py"
