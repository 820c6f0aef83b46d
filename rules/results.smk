# Every result that the configuration asks for, target `check`, and what all rules have alike.
# Included when all rules are there: it names what the other files make.

RESULTS = [
    *made_by("corpus", "tokenizer"),
    *[f for s in SPLITS for end in ("tfrecord", "json") for f in shard_files(s, end)],
    *expand("results/manifests/{split}.json", split=SPLITS),
    *made_by("pretrain", "keep_model", "evaluate", "fill_mask", runs=REPORTED_RUNS),
    *[file for path in REPORT_EXTRAS.values() for file in expand(path, run=REPORTED_RUNS)],
    *(made_by(*FINETUNE_RULES) if "finetune" in REPORT_EXTRAS else []),
    *made_by("report"),
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
    own.set_params(code=job_digests(Path(own.script).stem, own.name, MEMORY))
