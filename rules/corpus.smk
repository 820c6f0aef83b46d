# From a source of text to the three splits, filtered and free of duplicates.
# Requires: what `corpus` in the configuration names: a package, files, or a Hub dataset.
# Gives: results/corpus/{split}.parquet (columns text and group, one document a row), or several
#        files, and results/corpus/{split}.json (source, files, sizes, what each filter took).
from mlm.corpus.file_patterns import check_group_by, matched_files, used_settings

CORPUS_FILES = {split: [] for split in SPLITS}
if settings["corpus"]["source"] == "files":
    # Jobs read this rule file as well, and need not print the same lines again.
    told = logger.info if workflow.is_main_process else lambda _: None
    patterns = {s: settings["corpus"]["files"][s] for s in SPLITS}
    try:
        CORPUS_FILES = matched_files(patterns, told)
        check_group_by(settings["corpus"]["group_by"], CORPUS_FILES)
    except MlmError as error:
        # Beside prebuilt shards the text may be elsewhere, as long as the tokenizer is here.
        if FROM_CORPUS:
            raise WorkflowError(str(error))


rule corpus:
    """Read, clean, split, filter and deduplicate the text."""
    input:
        train=source(CORPUS_FILES["train"]),
        validation=source(CORPUS_FILES["validation"]),
        test=source(CORPUS_FILES["test"]),
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
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
    params:
        code=code("corpus"),
        files={split: identities(paths) for split, paths in CORPUS_FILES.items()},
        settings=canonical(used_settings(settings["corpus"], settings["seed"])),
        file_counts=canonical(settings["corpus"]["count"]),
    script:
        "../scripts/corpus.py"
