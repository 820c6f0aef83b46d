# Every result that the configuration asks for, checked before anything is planned.
# Included when all rules are there: it names what the other files make.
from snakemake.io import regex_from_filepattern

from mlm.foundations.result_checks import params_by_output, refuse_unusable

RESULTS = [
    *made_by("corpus", "tokenizer"),
    *[f for s in SPLITS for end in ("tfrecord", "json") for f in shard_files(s, end)],
    *expand("results/manifests/{split}.json", split=SPLITS),
    *made_by("pretrain", "keep_model", "evaluate", "fill_mask", runs=REPORTED_RUNS),
    *expand("results/runs/{run}/{file}", run=REPORTED_RUNS, file=REPORTED_FILES.values()),
    *(made_by(*FINETUNE_RULES) if settings.finetune.enabled else []),
    *made_by("report"),
]
# Made only when a target asks for them; their settings are left to Snakemake's notes.
ON_REQUEST = [*PUBLISH_RECORDS, *made_by(*FINETUNE_RULES, "compile_train_step")]

# Results are checked once, in the process that plans.
if workflow.is_main_process and BUCKET in (None, "gcs"):
    with errors_in_words():
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
            BUCKET and workflow.storage_settings.default_storage_prefix,
        )
