# Every result that the configuration asks for, checked before anything is planned.
# Included when all rules are there: it names what the other files make.
from snakemake.io import regex_from_filepattern

from mlm.foundations.result_checks import check_backend, params_by_output, refuse_unusable

RESULTS = [
    *made_by("corpus", "tokenizer"),
    *[f for s in SPLITS for end in ("tfrecord", "json") for f in shard_files(s, end)],
    *expand("results/manifests/{split}.json", split=SPLITS),
    *made_by("pretrain", "keep_model", "evaluate", "fill_mask", runs=REPORTED_RUNS),
    *[file for path in REPORT_EXTRAS.values() for file in expand(path, run=REPORTED_RUNS)],
    *(made_by(*FINETUNE_RULES) if "finetune" in REPORT_EXTRAS else []),
    *made_by("report"),
]
# Made only when a target asks for them; their settings are left to Snakemake's notes.
ON_REQUEST = [*PUBLISH_RECORDS, *made_by(*FINETUNE_RULES, "compile_train_step")]

for own in workflow.rules:
    if own.norun or own.log or own.basedir != HERE:
        continue
    names = re.findall(r"\{([a-z]+)", str(own.output[0])) if own.output else []
    place = f"{own.name}/{'-'.join(f'{{{name}}}' for name in dict.fromkeys(names)) or own.name}"
    own.log_modifier = own.benchmark_modifier = workflow.modifier.path_modifier
    own.set_log(f"logs/{place}.log")
    own.benchmark = f"logs/benchmarks/{place}.tsv"
    own.conda_env = "../envs/environment.yaml"
    own.set_params(code=code_of(Path(own.script).stem, own.name))

if workflow.is_main_process and storage_settings.default_storage_provider in (None, "gcs"):
    in_bucket = storage_settings.default_storage_provider == "gcs"
    with errors_in_words():
        if not in_bucket:
            check_backend(workflow.workflow_settings.persistence_backend.name)
        refuse_unusable(
            RESULTS,
            ON_REQUEST,
            params_by_output(
                (
                    (regex_from_filepattern(portable(file)), rule.params)
                    for rule in workflow.rules
                    for file in rule.output
                ),
                RESULTS,
            ),
            MEMORY,
            storage_settings.default_storage_prefix if in_bucket else None,
        )
