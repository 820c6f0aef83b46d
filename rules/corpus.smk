# From section `corpus` to the filtered splits: results/corpus/{split}.parquet (columns text and group,
# one document a row) and {split}.json. With corpus.parts, results/corpus/parts/ holds what is between.
from dataclasses import asdict
from mlm.corpus.parts import planned_parts

with errors_in_words():
    PARTS = planned_parts(settings.corpus, FILES_OF_SOURCES, show_once, bool(BUCKET))
# Sources of a mix are read by a job each.
IN_PARTS = len(PARTS) > 1 or CORPUS.corpus.source == "mix"
PARTS_PLACE = f"results/corpus/parts/{len(PARTS):05d}"
NEAR = CORPUS.corpus.filters.near_duplicates
# Endings of what a comparison of the documents of a part leaves, by what is on.
OVERLAP = ("json", "numbers") if CORPUS.decontaminates else ()
SIGNED = ("json", "signatures", "keys") if NEAR.enabled else ()
CORPUS_FILES = {
    split: sorted({path for files in FILES_OF_SOURCES.values() for path in files[split]})
    for split in SPLITS
}


def of_parts(stem, *endings):
    """The files that the jobs of all parts leave, by the stem and the endings of their names."""
    numbers = range(len(PARTS)) if IN_PARTS else []
    return [f"{PARTS_PLACE}/{stem}-{part:05d}.{e}" for part in numbers for e in endings]


def removed_by(ending):
    """The files on documents that passes removed, but for near-duplicates."""
    return [f"{PARTS_PLACE}/removed.{ending}", *(of_parts("overlap", ending) if OVERLAP else [])]


def near_duplicates(ending):
    """The file on near-duplicates, if they are removed."""
    return [f"{PARTS_PLACE}/near.{ending}"] if NEAR.enabled else []


def written(*endings, splits=SPLITS):
    """The Parquet files of `splits` as jobs of parts write them, and what is beside them."""
    counts = {split: getattr(settings.corpus.count, split) for split in splits if IN_PARTS}
    return [
        f"results/corpus/parts/written/{split}-{share:05d}-of-{count:05d}.{ending}"
        for split, count in counts.items()
        for share in range(count)
        for ending in endings
    ]


def held_out_records(split):
    """The records of `split` for a job that writes train, which is compared with it."""
    return lambda wildcards: (written("json", splits=[split]) if wildcards.split == "train" else [])


rule corpus_read:
    """Read a part of the source: decode, clean, split, filter, and put aside."""
    input:
        lambda wildcards: source(PARTS[int(wildcards.part)].paths),
        filters=source(FILTER_FILES),
    output:
        record=temp("results/corpus/parts/{parts}/read-{part}.json"),
        digests=temp("results/corpus/parts/{parts}/read-{part}.digests"),
        train=temp("results/corpus/parts/{parts}/read-{part}.train"),
        validation=temp("results/corpus/parts/{parts}/read-{part}.validation"),
        test=temp("results/corpus/parts/{parts}/read-{part}.test"),
    log:
        "logs/corpus_read/{parts}-{part}.log",
    benchmark:
        "logs/benchmarks/corpus_read/{parts}-{part}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        part=lambda wildcards: asdict(PARTS[int(wildcards.part)]),
        files=lambda wildcards: identities(PARTS[int(wildcards.part)].paths + FILTER_FILES),
        corpus=CORPUS.for_reading().as_param(),
        code=code_of("corpus", "corpus_read"),
    script:
        "../scripts/jobs/corpus.py"


rule corpus_deduplicate:
    """Find duplicates and leaks among the documents of all parts."""
    input:
        records=of_parts("read", "json"),
    output:
        record=temp("results/corpus/parts/{parts}/removed.json"),
        removed=temp("results/corpus/parts/{parts}/removed.numbers"),
    log:
        "logs/corpus_deduplicate/{parts}.log",
    benchmark:
        "logs/benchmarks/corpus_deduplicate/{parts}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=1000,
        runtime=120,
    params:
        deduplicate=CORPUS.corpus.filters.deduplicate,
        remove_leakage=CORPUS.corpus.filters.remove_leakage,
        code=code_of("corpus", "corpus_deduplicate"),
    script:
        "../scripts/jobs/corpus.py"


if OVERLAP or SIGNED:

    rule corpus_compare:
        """Find documents of a part that share words with texts of an evaluation; sign the others."""
        input:
            filters=source(FILTER_FILES),
            removed=f"{PARTS_PLACE}/removed.json",
            part=f"{PARTS_PLACE}/read-{{part}}.json",
        output:
            **{
                f"{stem}_{ending}": temp(
                    f"results/corpus/parts/{{parts}}/{stem}-{{part}}.{ending}"
                )
                for stem, endings in (("overlap", OVERLAP), ("signed", SIGNED))
                for ending in endings
            },
        log:
            "logs/corpus_compare/{parts}-{part}.log",
        benchmark:
            "logs/benchmarks/corpus_compare/{parts}-{part}.tsv"
        conda:
            "../envs/environment.yaml"
        resources:
            mem_mb=1500,
            runtime=240,
        params:
            files=identities(FILTER_FILES),
            corpus=CORPUS.for_decontamination().as_param(),
            near=NEAR.model_dump(include={"words", "bands", "rows"}),
            code=code_of("corpus", "corpus_compare"),
        script:
            "../scripts/jobs/corpus.py"


rule corpus_cluster:
    """Cluster documents that share keys, and keep one of each cluster."""
    input:
        removed=removed_by("json"),
        signed=of_parts("signed", "json"),
    output:
        record=temp("results/corpus/parts/{parts}/near.json"),
        removed=temp("results/corpus/parts/{parts}/near.numbers"),
    log:
        "logs/corpus_cluster/{parts}.log",
    benchmark:
        "logs/benchmarks/corpus_cluster/{parts}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        near=NEAR.model_dump(),
        remove_leakage=CORPUS.corpus.filters.remove_leakage,
        code=code_of("corpus", "corpus_cluster"),
    script:
        "../scripts/jobs/corpus.py"


rule corpus_write:
    """Write one of the Parquet files of a split, of the documents that are kept."""
    input:
        near=near_duplicates("json"),
        removed=removed_by("json"),
        validation=held_out_records("validation"),
        test=held_out_records("test"),
    output:
        file=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.parquet"),
        record=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.json"),
        groups=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.groups"),
        shared=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.shared"),
    log:
        "logs/corpus_write/{split}-{share}-{shares}.log",
    benchmark:
        "logs/benchmarks/corpus_write/{split}-{share}-{shares}.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        code=code_of("corpus", "corpus_write"),
    script:
        "../scripts/jobs/corpus.py"


rule corpus_counts:
    """Sum up what all parts and files of the corpus counted."""
    input:
        **{f"{split}_records": written("json", splits=[split]) for split in SPLITS},
        # All that was made so far: it is needed until everything is written, and then gone.
        records=of_parts("read", "json"),
        spools=of_parts("read", "digests", *SPLITS),
        removed=removed_by("json"),
        numbers=[*removed_by("numbers"), *near_duplicates("numbers")],
        signed=of_parts("signed", *SIGNED),
        near=near_duplicates("json"),
        counted=written("groups", "shared"),
        files=written("parquet"),
    output:
        train=temp("results/corpus/parts/train.json"),
        validation=temp("results/corpus/parts/validation.json"),
        test=temp("results/corpus/parts/test.json"),
    log:
        "logs/corpus_counts/corpus_counts.log",
    benchmark:
        "logs/benchmarks/corpus_counts/corpus_counts.tsv"
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        code=code_of("corpus", "corpus_counts"),
    script:
        "../scripts/jobs/corpus.py"


rule corpus:
    """Read, clean, split, filter and deduplicate the text; or take over what jobs of parts wrote."""
    input:
        train=source(CORPUS_FILES["train"]),
        validation=source(CORPUS_FILES["validation"]),
        test=source(CORPUS_FILES["test"]),
        filters=source(FILTER_FILES),
        # The same whatever the number of parts, which changes no byte.
        parts=[
            *[f"results/corpus/parts/{split}.json" for split in SPLITS if IN_PARTS],
            *written("parquet", "json"),
        ],
    output:
        train=corpus_files("train"),
        validation=corpus_files("validation"),
        test=corpus_files("test"),
        train_json="results/corpus/train.json",
        validation_json="results/corpus/validation.json",
        test_json="results/corpus/test.json",
    log:
        "logs/corpus/corpus.log",
    benchmark:
        "logs/benchmarks/corpus/corpus.tsv"
    conda:
        "../envs/environment.yaml"
    # Files of parts are checked side by side.
    threads: 4 if IN_PARTS else 1
    resources:
        mem_mb=2000,
        runtime=240,
    params:
        files={
            part: identities(paths)
            for part, paths in (CORPUS_FILES | {"filters": FILTER_FILES}).items()
        },
        corpus=CORPUS.as_param(),
        file_counts=settings.corpus.count.as_param(),
        code=code_of("corpus", "corpus"),
    script:
        "../scripts/jobs/corpus.py"
