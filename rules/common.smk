# What all rules share: the checked configuration, the runs, and the code edges.
import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# Of this file, and not of the workflow that may use this one as a module.
BASE = Path(str(workflow.current_basedir)).parent
if str(BASE / "scripts") not in sys.path:
    sys.path.insert(0, str(BASE / "scripts"))

from mlm.config.fields import SPLITS
from mlm.config.memory import evaluation_mb, tokens_of, training_mb
from mlm.config.resolution import model_of_run, resolve, run_section
from mlm.config.sources import repeated_keys, set_by_user
from mlm.foundations.code_digests import code_digests
from mlm.foundations.digests import FileMemory
from mlm.foundations.environment import check_environment, check_place
from mlm.foundations.errors import MlmError
from mlm.jobs.abandoned_locks import hold_directory
from mlm.publishing.secrecy import token_from_environment
from mlm.results.artefacts import portable
from mlm.results.bucket_access import check_bucket

try:
    check_place(Path.cwd())
    check_environment(BASE / "envs" / "requirements.txt")
    storage_settings = workflow.storage_settings
    if workflow.is_main_process and storage_settings.default_storage_provider == "gcs":
        check_bucket(storage_settings.default_storage_prefix)
    if workflow.modifier.skip_configfile:
        # A workflow that uses this one as a module gives what differs from the defaults.
        settings = resolve(config)
    else:
        given, undecided = set_by_user(config, workflow.config_settings.overwrite_config)
        settings = resolve(given, repeated_keys(workflow.configfiles) + undecided)
except MlmError as error:
    raise WorkflowError(str(error))
if workflow.is_main_process and not workflow.output_settings.dryrun:
    hold_directory(Path.cwd(), logger.info)

RUNS = list(settings["runs"])
SHARD_COUNTS = settings["shards"]["count"]


wildcard_constraints:
    split="|".join(SPLITS),
    run="|".join(map(re.escape, RUNS)),
    shard=r"\d{5}",


# Content decides whether a file or a module changed; what was read once is remembered.
MEMORY = FileMemory(".snakemake/remembered-digests.json")


def code(script):
    """Digests of what `scripts/{script}.py` and the modules that it imports do, for `params`.

    An edit of meaning reruns; comments, docstrings, formatting, dates and places do not.
    """
    return code_digests(BASE / "scripts", [script], MEMORY)


def source(paths):
    """Files from outside the workflow, as inputs whose dates do not count: see `identities`."""
    return [ancient(local(str(path))) for path in paths]


def identities(paths):
    """The identity of each source file by its path, for `params`: its content, not its date."""
    return {str(path): MEMORY.identity(path) for path in paths if Path(path).is_file()}


def of_run(section, *keys, without=None):
    """Section `section` as the job's run sees it, for `params`.

    Narrowed to `keys`, or to all but the key `without`.
    """

    def narrowed(wildcards):
        whole = run_section(settings, wildcards.run, section)
        return canonical({k: v for k, v in whole.items() if k in (keys or whole) and k != without})

    return narrowed


def model_of(wildcards):
    """The model of the job's run, for `params`: with the content of its config file, if any."""
    return canonical(model_of_run(settings, wildcards.run))


def setting_of_run(*path):
    """One value of the configuration as the job's run sees it, for `resources`."""

    def value(wildcards):
        found = run_section(settings, wildcards.run, path[0])
        for key in path[1:]:
            found = found[key]
        return found

    return value


def canonical(value):
    """`value` with sorted keys, so that the order of the configuration is no change."""
    if isinstance(value, dict):
        return {k: canonical(value[k]) for k in sorted(value)}
    return [canonical(v) for v in value] if isinstance(value, list) else value


def shard_files(split, suffix="tfrecord"):
    """The declared shards of `split`, in order."""
    count = SHARD_COUNTS[split]
    return [f"results/shards/{split}/{split}-{i:05d}-of-{count:05d}.{suffix}" for i in range(count)]


def staged_shards(*splits):
    """The shards of `splits` as the input `staged` where results live in a bucket: only fetched.

    Elsewhere none: jobs depend on the manifest, and what is done does not need its shards again.
    The list is made when the rules are complete, since rules/shards.smk says what the shards are.
    """
    if workflow.storage_settings.default_storage_provider is None:
        return []
    return lambda wildcards: [file for split in splits for file in SHARD_FILES[split]]


def of_accelerator(*keys):
    """The keys of section `accelerator`, for `params`."""
    return canonical({key: settings["accelerator"][key] for key in keys})


# The size of a tokenizer that is trained here; that of another is not known before it is read.
VOCABULARY = (
    settings["tokenizer"]["vocabulary_size"]
    if settings["tokenizer"]["kind"] != "pretrained" and settings["shards"]["source"] == "corpus"
    else None
)


# Which TPU is used changes no result. It travels as resources, whose change reruns nothing.
THE_TPU = {f"accelerator_tpu_{k}": v or "" for k, v in settings["accelerator"]["tpu"].items()}


def of_finetune(*keys):
    """The keys of section `finetune`, for `params`."""
    return canonical({key: settings["finetune"][key] for key in keys})


def of_folds(start, name):
    """The file `name` of every fold of `start`, in order."""
    return expand(
        f"results/runs/{{{{run}}}}/finetune/{start}/fold-{{fold}}/{name}", fold=FINETUNE_FOLDS
    )


def publish_to(repository, kind):
    """The destination `repository` of the Hub, for `params`."""
    return {"repository": repository, "kind": kind, "private": settings["publish"]["private"]}


def publish_records(wildcards):
    """The records of all that is to be published. Without a repository or a token: an error."""
    if not PUBLISH_RECORDS:
        raise WorkflowError(
            "publish: no repository is named. Set publish.tokenizer, publish.dataset or "
            "publish.model in the configuration, each to owner/name; what is null is not "
            "published"
        )
    # Before hours of training, not after them.
    if workflow.is_main_process and not workflow.dryrun:
        try:
            token_from_environment()
        except MlmError as error:
            raise WorkflowError(str(error))
    return PUBLISH_RECORDS


def memory_of_training(wildcards):
    """What the model, its optimizer and the batches take; see `training_mb`."""
    accelerator = settings["accelerator"]
    return training_mb(
        model_of(wildcards),
        run_section(settings, wildcards.run, "pretraining"),
        VOCABULARY,
        settings["shards"]["sequence_length"],
        replicas=accelerator["virtual_replicas"] or 1,
        on_host=accelerator["kind"] in ("auto", "cpu") or bool(accelerator["virtual_replicas"]),
    )


def memory_of_evaluation(wildcards, input):
    """What the model and the test split take; see `evaluation_mb`.

    Where results live in a bucket the manifest is not here, and the split is left out.
    """
    here = workflow.storage_settings.default_storage_provider is None
    return evaluation_mb(
        model_of(wildcards),
        VOCABULARY,
        settings["shards"]["sequence_length"],
        tokens_of(input.test) if here else 0,
    )
