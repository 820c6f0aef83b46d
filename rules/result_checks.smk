# Results are checked once, before planning: those that are damaged or of other settings are refused.
from snakemake.io import regex_from_filepattern

from mlm.foundations.bucket_results import check_bucket
from mlm.foundations import result_checks

# Those that are made only when a target asks for them. Which targets are asked for is not known
# yet: damage to them is always reported, and their settings are left to Snakemake's notes.
ON_REQUEST = [
    *PUBLISH_RECORDS,
    *made_by(
        *FINETUNE_RULES,
        "compile_train_step",
    ),
]

if workflow.is_main_process and storage_settings.default_storage_provider in (None, "gcs"):
    PARAMS_OF = result_checks.params_by_output(
        (
            (regex_from_filepattern(portable(file)), rule.params)
            for rule in workflow.rules
            for file in rule.output
        ),
        RESULTS,
    )
    with errors_in_words():
        if storage_settings.default_storage_provider == "gcs":
            prefix = storage_settings.default_storage_prefix
            CHECK = result_checks.ResultCheck(check_bucket(prefix, RESULTS, PARAMS_OF))
        else:
            result_checks.check_backend(workflow.workflow_settings.persistence_backend.name)
            CHECK = result_checks.check_results(RESULTS + ON_REQUEST, PARAMS_OF, MEMORY)
            if not CHECK.problems and not CHECK.changed:
                result_checks.give_copies_one_date()
        if CHECK.problems:
            raise MlmError("\n".join(["Results that cannot be used:", *CHECK.problems]))
        # Snakemake's notes on what is gone when the corpus is there would name the number of parts.
        result_checks.forget_removed("results/corpus/parts/")
        for path, user in CHECK.changed:
            if result_checks.is_no_newer(path, user):
                print(
                    f"{path} is another than the one that {user} was made from, though its date is "
                    "older: what follows from it is made again",
                    file=sys.stderr,
                )
                # Snakemake goes by dates, and would not see it.
                os.utime(path)
    MEMORY.save()
