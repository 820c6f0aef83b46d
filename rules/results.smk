# Every result that the configuration asks for, and a look at those that are there.
# Included last: it names what the other files make.
from snakemake.io import regex_from_filepattern

from mlm.foundations.result_checks import (
    Found,
    date_in_order,
    forget_removed,
    look_over,
    params_by_output,
)

RESULTS = [
    *[file for split in SPLITS for file in (*corpus_files(split), f"results/corpus/{split}.json")],
    *TOKENIZER_FILES,
    TOKENIZER_RECORD,
    *[f for s in SPLITS * FROM_CORPUS for end in ("tfrecord", "json") for f in shard_files(s, end)],
    *expand("results/manifests/{split}.json", split=SPLITS),
    *[file for run in REPORTED_RUNS for file in holes_of(run)],
    *expand(
        "results/runs/{run}/{place}{file}",
        run=REPORTED_RUNS,
        place=["trained/", ""],
        file=TRAINED_FILES.values(),
    ),
    *expand("results/runs/{run}/evaluation.json", run=REPORTED_RUNS),
    *expand("results/runs/{run}/fill_mask.json", run=REPORTED_RUNS),
    *[file for path in REPORT_EXTRAS.values() for file in expand(path, run=REPORTED_RUNS)],
    *(made_by(*FINETUNE_RULES) if "finetune" in REPORT_EXTRAS else []),
    "results/report.html",
    "results/report.json",
    *[f"results/figures/{name}.svg" for name in REPORT_FIGURES],
]

# Those that are made only when a target asks for them. Which targets are asked for is not known
# yet: damage to them is always reported, and their settings are left to Snakemake's notes.
ON_REQUEST = [
    *PUBLISH_RECORDS,
    *INDEXES,
    *made_by(
        *FINETUNE_RULES,
        "lower_train_step",
        "find_batch",
        "compile_train_step",
        "preflight_finetune",
        "preflight_passed",
    ),
]

# Snakemake's notes on what is gone when the corpus is there would name the number of its parts.
TEMPORARY = [
    *[f"results/corpus/parts/{split}.json" for split in SPLITS],
    *[
        f"results/corpus/parts/written/{split}-{share:05d}-of-{count:05d}.{ending}"
        for split, count in settings["corpus"]["count"].items()
        for share in range(count)
        for ending in ("parquet", "json", "groups", "shared")
    ],
]


# Without an output, not even a benchmark, it is made whenever it is asked for.
rule check:
    """Say what stands in the way of a run and what it will take, from a sample. A target."""
    threads: 2
    resources:
        mem_mb=4000,
        runtime=10,
    params:
        given=canonical(settings.given),
    script:
        "../scripts/jobs/check.py"


# All log, are timed, name their environment and depend on their code alike; `check` has no result.
for own in workflow.rules:
    if own.norun or own.log or own.basedir != HERE:
        continue
    names = re.findall(r"\{([a-z]+)", str(own.output[0])) if own.output else []
    place = f"{own.name}/{'-'.join(f'{{{name}}}' for name in dict.fromkeys(names)) or own.name}"
    own.log_modifier = own.benchmark_modifier = workflow.modifier.path_modifier
    own.set_log(f"logs/{place}.log")
    if own.output:
        own.benchmark = f"logs/benchmarks/{place}.tsv"
    own.conda_env = "../envs/environment.yaml"
    own.set_params(code=job_digests([Path(own.script).stem], MEMORY))


# The results themselves say what they were made from. They are checked once, before planning.
if workflow.is_main_process:
    PARAMS_OF = params_by_output(
        (
            (regex_from_filepattern(portable(file)), rule.params)
            for rule in workflow.rules
            for file in rule.output
        ),
        RESULTS,
    )
    with errors_in_words():
        if storage_settings.default_storage_provider is None:
            FOUND = look_over(RESULTS + ON_REQUEST, PARAMS_OF, MEMORY)
        elif storage_settings.default_storage_provider == "gcs":
            from mlm.foundations.bucket_results import look_over_bucket

            FOUND = look_over_bucket(storage_settings.default_storage_prefix, RESULTS, PARAMS_OF)
        else:
            FOUND = Found()
        if FOUND.problems:
            raise WorkflowError("\n".join(["Results that cannot be used:", *FOUND.problems]))
        date_in_order(FOUND.copied)
        forget_removed(TEMPORARY)
    for path, reason in FOUND.replaced.items():
        print(reason, file=sys.stderr)
        # Snakemake goes by dates, and would not see it.
        try:
            os.utime(path)
        except OSError as error:
            raise WorkflowError(
                f"{path}: its date cannot be set ({error.strerror}), and without that Snakemake "
                "would not see the change. Give this user the right to write to the file"
            )
    MEMORY.save()
