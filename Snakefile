# From a text corpus to a masked language model and a report: the table of contents.
from snakemake.utils import min_version

min_version("9.0")


configfile: f"{workflow.basedir}/config.yaml"


report: "report/workflow.rst"


include: "rules/library.smk"
include: "rules/common.smk"
include: "rules/corpus.smk"
include: "rules/tokenizer.smk"
include: "rules/shards.smk"
include: "rules/preflight.smk"
include: "rules/pretrain.smk"
include: "rules/evaluate.smk"
include: "rules/finetune.smk"
include: "rules/report.smk"
include: "rules/publish.smk"
include: "rules/results.smk"


rule all:
    default_target: True
    input:
        # All of them, so that one that was deleted is made again.
        RESULTS,


onstart:
    from mlm.check.refused_plans import check_before_work, guard_results

    jobs = list(workflow.dag.needrun_jobs())
    here = workflow.local_exec and not workflow.deployment_settings.deployment_method
    with errors_in_words():
        snakemake_session.hold_directory()
        check_before_work(jobs, settings.preflight.targets, here)
        if not BUCKET:
            options = workflow.config_settings
            guard_results(jobs, options.configfiles, options.config)
    logger.info(snakemake_session.plan(jobs, workflow.rules))


onsuccess:
    from mlm.foundations.artefacts import read_artefact
    from mlm.foundations.errors import printable

    if any(job.rule.name == "report" for job in workflow.dag.jobs):
        prefix = workflow.storage_settings.default_storage_prefix or ""
        page = portable(rules.report.output.page)
        logger.info(f"The report: {os.path.join(prefix, page)}")
        # In a bucket, no copy stays here.
        if os.path.exists(numbers := rules.report.output.numbers):
            logger.info(printable(read_artefact(numbers)["answer"]["line"]))
