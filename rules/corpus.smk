# From section `corpus` to the filtered splits: results/corpus/{split}.parquet (columns text and group,
# one document a row) and {split}.json. With corpus.parts, results/corpus/parts/ holds what is between.
from dataclasses import asdict
from mlm.corpus.source_files import planned_parts

with errors_in_words():
    PARTS = planned_parts(settings.corpus, FILES_OF_SOURCES, show_once, bool(BUCKET))
# Sources of a mix are read by a job each.
IN_PARTS = len(PARTS) > 1 or CORPUS.corpus.source == "mix"
FILTERS, NEAR = CORPUS.corpus.filters, CORPUS.corpus.filters.near_duplicates
CORPUS_FILES = {
    split: sorted({path for files in FILES_OF_SOURCES.values() for path in files[split]})
    for split in SPLITS
}
PLACE = f"results/corpus/parts/{len(PARTS):05d}"
# What the jobs of parts leave, by the stems of the files' names.
NUMBERS = [f"{part:05d}" for part in range(len(PARTS)) if IN_PARTS]
READ = [f"{PLACE}/read-{number}" for number in NUMBERS]
OVERLAPS = [f"{PLACE}/overlap-{number}" for number in NUMBERS if CORPUS.decontaminates]
REMOVED = [f"{PLACE}/removed", *OVERLAPS]
SIGNED = [f"{PLACE}/signed-{number}" for number in NUMBERS if NEAR.enabled]
CLUSTERED = [f"{PLACE}/near"] if NEAR.enabled else []
WRITTEN = {
    split: [
        f"results/corpus/parts/written/{split}-{share:05d}-of-{count:05d}" for share in range(count)
    ]
    for split, count in settings.corpus.count
    if IN_PARTS
}
# What the comparison of a part's documents leaves, by what is on.
COMPARED = {
    **({"overlap": ("json", "verdicts")} if CORPUS.decontaminates else {}),
    **({"signed": ("json", "signatures", "keys")} if NEAR.enabled else {}),
}
files_of = lambda stems, *endings: [f"{stem}.{ending}" for stem in stems for ending in endings]
all_written = lambda *endings: files_of(sum(WRITTEN.values(), []), *endings)
held_out_records = lambda held_out, split: files_of(
    WRITTEN[held_out] if split == "train" else [], "json"
)


# The last pass comes first: the others have its environment, resources and script.
rule corpus_write:
    """Write one of the Parquet files of a split, of the documents that are kept."""
    input:
        near=files_of(CLUSTERED, "json"),
        removed=files_of(REMOVED, "json"),
        # A job that writes train compares it with what is held out.
        validation=lambda w: held_out_records("validation", w.split),
        test=lambda w: held_out_records("test", w.split),
    output:
        file=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.parquet"),
        record=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.json"),
        groups=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.groups"),
        shared=temp("results/corpus/parts/written/{split}-{share}-of-{shares}.shared"),
    log:
        "logs/corpus_write/{split}-{share}-{shares}.log",
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        code=code_of("corpus", "corpus_write"),
    script:
        "../scripts/jobs/corpus.py"


# Read a part of the source: decode, clean, split, filter, and put aside.
use rule corpus_write as corpus_read with:
    input:
        lambda w: source(PARTS[int(w.part)].paths),
        filters=source(FILTER_FILES),
    output:
        record=temp("results/corpus/parts/{parts}/read-{part}.json"),
        digests=temp("results/corpus/parts/{parts}/read-{part}.digests"),
        train=temp("results/corpus/parts/{parts}/read-{part}.train"),
        validation=temp("results/corpus/parts/{parts}/read-{part}.validation"),
        test=temp("results/corpus/parts/{parts}/read-{part}.test"),
    log:
        "logs/corpus_read/{parts}-{part}.log",
    params:
        part=lambda w: asdict(PARTS[int(w.part)]),
        files=lambda w: identities(PARTS[int(w.part)].paths + FILTER_FILES),
        corpus=CORPUS.for_reading().as_param(),
        code=code_of("corpus", "corpus_read"),


# Find duplicates and leaks among the documents of all parts.
use rule corpus_write as corpus_deduplicate with:
    input:
        records=files_of(READ, "json"),
    output:
        record=temp("results/corpus/parts/{parts}/removed.json"),
        removed=temp("results/corpus/parts/{parts}/removed.verdicts"),
    log:
        "logs/corpus_deduplicate/{parts}.log",
    params:
        deduplicate=FILTERS.deduplicate,
        remove_leakage=FILTERS.remove_leakage,
        code=code_of("corpus", "corpus_deduplicate"),


if COMPARED:

    # Find documents of a part that share words with texts of evaluations, and sign the others.
    use rule corpus_write as corpus_compare with:
        input:
            filters=source(FILTER_FILES),
            removed=f"{PLACE}/removed.json",
            part=f"{PLACE}/read-{{part}}.json",
        output:
            **{
                f"{stem}_{ending}": temp(
                    f"results/corpus/parts/{{parts}}/{stem}-{{part}}.{ending}"
                )
                for stem, endings in COMPARED.items()
                for ending in endings
            },
        log:
            "logs/corpus_compare/{parts}-{part}.log",
        resources:
            mem_mb=1500,
            runtime=240,
        params:
            files=identities(FILTER_FILES),
            corpus=CORPUS.for_decontamination().as_param(),
            near=NEAR.model_dump(include={"words", "bands", "rows"}),
            code=code_of("corpus", "corpus_compare"),


# Cluster documents that share keys, and keep one of each cluster.
use rule corpus_write as corpus_cluster with:
    input:
        removed=files_of(REMOVED, "json"),
        signed=files_of(SIGNED, "json"),
    output:
        record=temp("results/corpus/parts/{parts}/near.json"),
        removed=temp("results/corpus/parts/{parts}/near.verdicts"),
    log:
        "logs/corpus_cluster/{parts}.log",
    params:
        near=NEAR.model_dump(),
        remove_leakage=FILTERS.remove_leakage,
        code=code_of("corpus", "corpus_cluster"),


# Sum up what all parts and files of the corpus counted.
use rule corpus_write as corpus_counts with:
    input:
        **{f"{split}_records": files_of(stems, "json") for split, stems in WRITTEN.items()},
        # All that was made so far: it is needed until everything is written, and then gone.
        records=files_of(READ, "json"),
        spools=files_of(READ, "digests", *SPLITS),
        removed=files_of(REMOVED, "json"),
        verdicts=files_of([*REMOVED, *CLUSTERED], "verdicts"),
        signed=files_of(SIGNED, "json", "signatures", "keys"),
        near=files_of(CLUSTERED, "json"),
        counted=all_written("groups", "shared"),
        files=all_written("parquet"),
    output:
        **{split: temp(f"results/corpus/parts/{split}.json") for split in SPLITS},
    log:
        "logs/corpus_counts/corpus_counts.log",
    params:
        code=code_of("corpus", "corpus_counts"),


rule corpus:
    """Read, clean, split, filter and deduplicate the text; or take over what jobs of parts wrote."""
    input:
        **{split: source(files) for split, files in CORPUS_FILES.items()},
        filters=source(FILTER_FILES),
        # The same whatever the number of parts, which changes no byte.
        parts=[
            *[f"results/corpus/parts/{split}.json" for split in SPLITS if IN_PARTS],
            *all_written("parquet", "json"),
        ],
    output:
        **{split: corpus_files(split) for split in SPLITS},
        **{f"{split}_json": f"results/corpus/{split}.json" for split in SPLITS},
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
            **{split: identities(files) for split, files in CORPUS_FILES.items()},
            "filters": identities(FILTER_FILES),
        },
        corpus=CORPUS.as_param(),
        file_counts=settings.corpus.count.as_param(),
        code=code_of("corpus", "corpus"),
    script:
        "../scripts/jobs/corpus.py"
