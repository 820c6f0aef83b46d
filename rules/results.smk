# Every result that the configuration asks for, and a look at those that are there.
# Included last: it names what the other files make.
from mlm.result_checks import look_over, params_by_output

RESULTS = [
    *expand("results/corpus/{split}.{suffix}", split=SPLITS, suffix=["parquet", "json"]),
    *TOKENIZER_FILES,
    TOKENIZER_RECORD,
    *(
        []
        if PREBUILT
        else [
            file
            for split in SPLITS
            for suffix in ("tfrecord", "json")
            for file in shard_files(split, suffix)
        ]
    ),
    *expand("results/manifests/{split}.json", split=SPLITS),
    *expand(
        "results/runs/{run}/{place}{file}",
        run=REPORTED_RUNS,
        place=["trained/", ""],
        file=TRAINED_FILES.values(),
    ),
    *expand(
        "results/runs/{run}/{artefact}.json",
        run=REPORTED_RUNS,
        artefact=["evaluation", "fill_mask"]
        + (["preview"] if "preview" in settings["report"]["sections"] else []),
    ),
    *[file for path in REPORT_EXTRAS.values() for file in expand(path, run=REPORTED_RUNS)],
    *rules.report.output,
]

# What a job was made from is asked of the results themselves, once, before anything is planned.
if workflow.is_main_process and storage_settings.default_storage_provider is None:
    FOUND = look_over(RESULTS, params_by_output(workflow.rules), MEMORY)
    if FOUND.problems:
        raise WorkflowError("\n".join(["Results that cannot be used:", *FOUND.problems]))
    for path, reason in FOUND.replaced.items():
        print(reason, file=sys.stderr)
        # Snakemake goes by dates, and would not see it.
        os.utime(path)
if workflow.is_main_process:
    MEMORY.save()
