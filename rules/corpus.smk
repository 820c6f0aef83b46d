# From section `corpus` to the filtered splits: results/corpus/{split}.parquet (columns text and group,
# one document a row) and {split}.json. With corpus.parts, results/corpus/parts/ holds what is between.
from mlm.corpus.parts import decontamination_settings, planned_parts

CORPUS_FILES = {
    split: sorted({path for files in FILES_OF_SOURCES.values() for path in files[split]})
    for split in SPLITS
}

# What is read is decontaminated, and searched for near-duplicates, later; empty: they are kept.
FIRST_FILTERS = {
    key: value
    for key, value in USED_BY_CORPUS["filters"].items()
    if key not in ("decontamination", "near_duplicates")
}
NEAR_DUPLICATES = USED_BY_CORPUS["filters"].get("near_duplicates", {})
DECONTAMINATION = decontamination_settings(USED_BY_CORPUS)
CORPUS_PARTS = [{"files": {}, "share": [0, 1]}]
MIXED = settings["corpus"]["source"] == "mix"
if MIXED or settings["corpus"]["parts"] > 1:
    if workflow.storage_settings.default_storage_provider is not None:
        raise WorkflowError(
            f"corpus.{'source: mix' if MIXED else 'parts: ' + str(settings['corpus']['parts'])} needs "
            "a file system that all jobs see, and results are to lie in a bucket. Make the corpus "
            f"where there is one (profiles/slurm){'' if MIXED else ', or set it to 1'}"
        )
    CORPUS_PARTS = planned_parts(settings["corpus"], FILES_OF_SOURCES, told)
# Sources of a mix are read by a job each.
IN_PARTS = MIXED or len(CORPUS_PARTS) > 1

FILES_OF_PART = [
    [piece[0] for pieces in part["files"].values() for piece in pieces] for part in CORPUS_PARTS
]
READ = f"results/corpus/parts/{len(CORPUS_PARTS):05d}"
# In parts: what all jobs before the last one leave, by the stem of their files' names.
numbers = [f"{part:05d}" for part in range(len(CORPUS_PARTS)) if IN_PARTS]
READ_PARTS = [f"{READ}/read-{number}" for number in numbers]
DEDUPLICATED = [f"{READ}/removed"]
# All but near-duplicates.
LEFT_OUT = DEDUPLICATED + [f"{READ}/overlap-{number}" for number in numbers if DECONTAMINATION]
SIGNED_PARTS = [f"{READ}/signed-{number}" for number in numbers if NEAR_DUPLICATES]
NEAR = [f"{READ}/near"] if NEAR_DUPLICATES else []
WRITTEN = {
    split: [
        f"results/corpus/parts/written/{split}-{share:05d}-of-{count:05d}" for share in range(count)
    ]
    for split, count in settings["corpus"]["count"].items()
    if IN_PARTS
}


# The files of jobs of parts, by the stems of their names.
files_of = lambda stems, *endings: [f"{stem}.{ending}" for stem in stems for ending in endings]
# The records of split `held_out`, with which a job that writes some of train compares.
held_out_records = lambda held_out, split: files_of(
    WRITTEN[held_out] if split == "train" else [], "json"
)


rule corpus_read:
    """Read a part of the source: decode, clean, split, filter, and put aside."""
    input:
        lambda wildcards: source(FILES_OF_PART[int(wildcards.part)]),
        filters=source(FILTER_FILES),
    output:
        record=temp("results/corpus/parts/{parts}/read-{part}.json"),
        digests=temp("results/corpus/parts/{parts}/read-{part}.digests"),
        train=temp("results/corpus/parts/{parts}/read-{part}-train.arrow"),
        validation=temp("results/corpus/parts/{parts}/read-{part}-validation.arrow"),
        test=temp("results/corpus/parts/{parts}/read-{part}-test.arrow"),
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        part=lambda wildcards: canonical(CORPUS_PARTS[int(wildcards.part)]),
        files=lambda wildcards: identities(FILES_OF_PART[int(wildcards.part)] + FILTER_FILES),
        settings=USED_BY_CORPUS | {"filters": FIRST_FILTERS},
    script:
        "../scripts/jobs/corpus_read.py"


rule corpus_deduplicate:
    """Find duplicates and leaks among the documents of all parts."""
    input:
        records=files_of(READ_PARTS, "json"),
    output:
        record=temp("results/corpus/parts/{parts}/removed.json"),
        removed=temp("results/corpus/parts/{parts}/removed.numbers"),
    resources:
        mem_mb=1000,
        runtime=120,
    params:
        filters={key: FIRST_FILTERS[key] for key in ("deduplicate", "remove_leakage")},
    script:
        "../scripts/jobs/corpus_deduplicate.py"


rule corpus_decontaminate:
    """Find documents of a part of train that share words in a row with texts of an evaluation."""
    input:
        filters=source(FILTER_FILES),
        removed=files_of(DEDUPLICATED, "json"),
    output:
        record=temp("results/corpus/parts/{parts}/overlap-{part}.json"),
        removed=temp("results/corpus/parts/{parts}/overlap-{part}.numbers"),
    resources:
        mem_mb=1500,
        runtime=240,
    params:
        files=identities(FILTER_FILES),
        settings=DECONTAMINATION,
    script:
        "../scripts/jobs/corpus_decontaminate.py"


rule corpus_sign:
    """Compute the MinHash signatures of a part's documents, and the keys of their bands."""
    input:
        # Snakemake compares each file asked of a job with all that this job reads: records alone.
        removed=files_of(LEFT_OUT, "json"),
        part=f"{READ}/read-{{part}}.json",
    output:
        record=temp("results/corpus/parts/{parts}/signed-{part}.json"),
        signatures=temp("results/corpus/parts/{parts}/signed-{part}.signatures"),
        bands=temp("results/corpus/parts/{parts}/signed-{part}.keys"),
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        near={key: NEAR_DUPLICATES.get(key) for key in ("words", "bands", "rows")},
    script:
        "../scripts/jobs/corpus_sign.py"


rule corpus_cluster:
    """Cluster documents that share keys, and keep one of each cluster."""
    input:
        removed=files_of(LEFT_OUT, "json"),
        signed=files_of(SIGNED_PARTS, "json"),
    output:
        record=temp("results/corpus/parts/{parts}/near.json"),
        removed=temp("results/corpus/parts/{parts}/near.numbers"),
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        near={key: value for key, value in NEAR_DUPLICATES.items() if key != "enabled"},
        leaks=FIRST_FILTERS["remove_leakage"],
    script:
        "../scripts/jobs/corpus_cluster.py"


rule corpus_write:
    """Write one of the Parquet files of a split, of the documents that are kept."""
    input:
        near=files_of(NEAR, "json"),
        removed=files_of(LEFT_OUT, "json"),
        # Train is compared with what is held out.
        validation=lambda wildcards: held_out_records("validation", wildcards.split),
        test=lambda wildcards: held_out_records("test", wildcards.split),
    output:
        file=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.parquet"),
        record=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.json"),
        groups=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.groups"),
        shared=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.shared"),
    resources:
        mem_mb=1000,
        runtime=240,
    script:
        "../scripts/jobs/corpus_write.py"


rule corpus_counts:
    """Sum up what all parts and files of the corpus counted."""
    input:
        **{f"{split}_records": files_of(stems, "json") for split, stems in WRITTEN.items()},
        # All that was made so far: it is needed until everything is written, and then gone.
        records=files_of(READ_PARTS, "json"),
        digests=files_of(READ_PARTS, "digests"),
        spools=[f"{stem}-{split}.arrow" for stem in READ_PARTS for split in SPLITS],
        removed=files_of(LEFT_OUT, "json"),
        numbers=files_of(LEFT_OUT + NEAR, "numbers"),
        signed=files_of(SIGNED_PARTS, "json", "signatures", "keys"),
        near=files_of(NEAR, "json"),
        counted=[file for stems in WRITTEN.values() for file in files_of(stems, "groups", "shared")],
        files=[file for stems in WRITTEN.values() for file in files_of(stems, "parquet")],
    output:
        train=temp("results/corpus/parts/train.json"),
        validation=temp("results/corpus/parts/validation.json"),
        test=temp("results/corpus/parts/test.json"),
    resources:
        mem_mb=1000,
        runtime=60,
    script:
        "../scripts/jobs/corpus_counts.py"


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
            *[file for stems in WRITTEN.values() for file in files_of(stems, "parquet", "json")],
        ],
    output:
        train=corpus_files("train"),
        validation=corpus_files("validation"),
        test=corpus_files("test"),
        train_json="results/corpus/train.json",
        validation_json="results/corpus/validation.json",
        test_json="results/corpus/test.json",
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
        settings=USED_BY_CORPUS,
        file_counts=canonical(settings["corpus"]["count"]),
        operational=operational(parts=f"{len(CORPUS_PARTS):05d}" if IN_PARTS else None),
    script:
        "../scripts/jobs/corpus.py"
