# From section `corpus` to the filtered splits: results/corpus/{split}.parquet (columns text and group,
# one document a row) and {split}.json. With corpus.parts, results/corpus/parts/ holds what was read.
from dataclasses import asdict
from mlm.corpus.source_files import planned_parts

PARTS = planned_parts(settings.corpus, FILES_OF_SOURCES)
IN_PARTS = settings.corpus.parts > 1
CORPUS_FILES = {
    split: sorted({path for files in FILES_OF_SOURCES.values() for path in files[split]})
    for split in SPLITS
}


rule corpus_read:
    """Read a part of the source: decode, clean, split, filter, sign, and put aside."""
    input:
        lambda w: source(PARTS[int(w.part)].paths),
        filters=source(FILTER_FILES),
    output:
        record=temp("results/corpus/parts/{part}-of-{parts}.json"),
        spools=[temp(f"results/corpus/parts/{{part}}-of-{{parts}}.{split}") for split in SPLITS],
    log:
        "logs/corpus_read/{part}-of-{parts}.log",
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=1500,
        runtime=240,
    params:
        part=lambda w: asdict(PARTS[int(w.part)]),
        files=lambda w: identities(PARTS[int(w.part)].paths + FILTER_FILES),
        corpus=CORPUS.as_param(),
        code=code_of("corpus", "corpus_read"),
    script:
        "../scripts/jobs/corpus.py"


rule corpus:
    """Read, clean, split, filter, deduplicate and write the text; or take over what parts read."""
    input:
        **{split: source(files) for split, files in CORPUS_FILES.items()},
        filters=source(FILTER_FILES),
        parts=[
            f"results/corpus/parts/{part:05d}-of-{len(PARTS):05d}.{ending}"
            for part in range(len(PARTS) if IN_PARTS else 0)
            for ending in ("json", *SPLITS)
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
        file_count=settings.corpus.count,
        # They change no byte.
        planned=NotCompared(parts=list(map(asdict, PARTS))),
        code=code_of("corpus", "corpus"),
    script:
        "../scripts/jobs/corpus.py"
