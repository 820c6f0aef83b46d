# What all rules share: the checked configuration, the runs, and the code edges.
import os
import re
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from snakemake.exceptions import WorkflowError


def unpacked(file):
    """The repository of `file`, which github(…) names, as a directory: Snakemake reads single files
    from its clone, and the library is many."""
    repository = file.hosted_repo.repo
    commit = repository.git.rev_parse(f"{file.ref}^{{commit}}")
    place = file.cache_path / "checkouts" / commit
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as partial:
            repository.git.archive(commit, output=f"{partial}/archive.tar")
            shutil.unpack_archive(f"{partial}/archive.tar", f"{partial}/files", filter="data")
            # Another process may have been faster.
            with suppress(OSError):
                os.rename(f"{partial}/files", place)
    return place


# Of this file, and not of the workflow that may use this one as a module.
HERE = workflow.current_basedir
BASE = Path(str(HERE)).parent if HERE.is_local else unpacked(HERE)
if str(BASE / "scripts") not in sys.path:
    sys.path.insert(0, str(BASE / "scripts"))
from mlm.config.evaluation import Evaluation
from mlm.config.fields import SPLITS
from mlm.config.finetune import label_of
from mlm.config import memory
from mlm.config.publish import model_repository, published_runs
from mlm.config.resolution import (
    corpus_configuration,
    families_of,
    model_of_run,
    resolve,
    run_section,
)
from mlm.config.sources import check_repeated, settings_from
from mlm.config.tokenizer import TOKENIZER_FILES as TOKENIZER_NAMES
from mlm.config.named_files import all_named_files
from mlm.corpus.equal_shares import file_name, overlapping
from mlm.corpus.parts import files_of_sources, filter_files
from mlm.foundations.code_digests import job_digests
from mlm.model.checkpoints import checkpoint_files
from mlm.foundations.digests import FileMemory
from mlm.foundations import environment, snakemake_session
from mlm.foundations.errors import MlmError, error_in_words
from mlm.report.glossary import FIGURES, FINETUNING_FIGURES
from mlm.report.other_runs import files_of_other_runs
from mlm.foundations.artefacts import portable


@contextmanager
def errors_in_words():
    """Shows errors that a user can mend as one message."""
    try:
        yield
    except (MlmError, OSError) as error:
        if not (words := error_in_words(error)):
            raise
        # Snakemake would list the lines of the workflow that led here.
        sys.tracebacklimit = 0
        raise WorkflowError(words)


if not HERE.is_local:
    # Snakemake fetches the scripts of jobs one by one.
    os.environ.update(environment.child_environment(BASE / "scripts" / "jobs"))
with errors_in_words():
    snakemake_session.begin(workflow, logger)
    storage_settings = workflow.storage_settings
    if workflow.modifier.skip_configfile:
        # A workflow that uses this one as a module gives what differs from the defaults.
        settings = resolve(config)
    else:
        check_repeated(sys.argv[1:] if workflow.is_main_process else [])
        settings = settings_from(config, workflow.config_settings, workflow.configfiles)

# SIGINT ends the jobs as well, through Snakemake alone.
shell.prefix("set -euo pipefail; trap '' INT; ")


def canonical(value):
    """`value` with sorted keys, so that the order of the configuration is no change."""
    if isinstance(value, dict):
        return {k: canonical(value[k]) for k in sorted(value)}
    return [canonical(v) for v in value] if isinstance(value, list) else value


# Jobs read the rules as well, and need not print the same lines again.
told = logger.info if workflow.is_main_process else lambda _: None


RUNS = list(settings["runs"])
CORPUS = corpus_configuration(settings)
# Looked for before anything is planned: Snakemake takes the results of a missing file as done.
with errors_in_words():
    FILES_OF_SOURCES, FILTER_FILES, OTHER_RUNS = all_named_files(
        settings if workflow.is_main_process else None,
        lambda: files_of_sources(CORPUS.corpus, told),
        lambda: filter_files(CORPUS),
        lambda: files_of_other_runs(settings["report"]["also"]),
    )
REPORTED_RUNS = settings["report"]["runs"] or sorted(RUNS)
PAIR_FILES = {run: run_section(settings, run, "evaluation")["minimal_pair_files"] for run in RUNS}

TOKENIZER_PARTS = [Path(name).stem for name in TOKENIZER_NAMES]
TOKENIZER_FILES = [f"results/tokenizer/{name}" for name in TOKENIZER_NAMES]
TOKENIZER_RECORD = "results/tokenizer/tokenizer_stats.json"
TOKENIZER = {
    "tokenizer": TOKENIZER_FILES[0],
    "tokenizer_settings": TOKENIZER_FILES[1:],
    "record": TOKENIZER_RECORD,
}
TRAINED_ON = {
    "train": "results/manifests/train.json",
    "validation": "results/manifests/validation.json",
    "tokenizer": TOKENIZER_FILES[0],
    "record": TOKENIZER_RECORD,
}
TRAINED_FILES = {
    "weights": "model/model.safetensors",
    "config": "model/config.json",
    "card": "model/README.md",
    **{name: f"model/{name}.json" for name in TOKENIZER_PARTS},
    "log": "training.csv",
    "summary": "training.json",
}
MODEL_FILES = {
    "model": "results/runs/{run}/model/model.safetensors",
    **{name: f"results/runs/{{run}}/model/{name}.json" for name in ("config", *TOKENIZER_PARTS)},
    "training": "results/runs/{run}/training.json",
    # Gone after a killed training, when the model is still that of the one before.
    "trained": ancient("results/runs/{run}/trained/training.json"),
}

FINETUNE_STARTS = ["pretrained", "random"]
FINETUNE_ALSO = {label_of(place): place for place in settings["finetune"]["also"]}
FINETUNE_FOLDS = list(range(settings["finetune"]["folds"]))
FINETUNE_STEP = (
    *("dropout", "epochs", "learning_rate", "max_length", "optimizer", "per_device_batch_size"),
    *("task", "warmup_ratio"),
)
FINETUNE_RULES = [f"finetune_{name}" for name in ("data", "ridge", "fold", "published", "merge")]

# What the report shows if it is asked for, with what it is read from.
PREFLIGHT_WANTED = settings["preflight"]["enabled"]
FINETUNE_WANTED = settings["finetune"]["enabled"]
REPORT_EXTRAS = {
    name: f"results/runs/{{run}}/{file}"
    for name, file, wanted in (
        ("preview", "preview.json", True),
        ("preflight", "preflight.json", PREFLIGHT_WANTED),
        ("finetune", "finetune/metrics.json", FINETUNE_WANTED),
    )
    if wanted
}
REPORT_FIGURES = FIGURES | (FINETUNING_FIGURES if "finetune" in REPORT_EXTRAS else {})

PUBLISH = settings["publish"]
PUBLISH_RECORDS = [
    *[f"results/publish/{what}.json" for what in ("tokenizer", "dataset") if PUBLISH[what]],
    *[f"results/publish/model-{run}.json" for run in published_runs(PUBLISH, RUNS)],
]


wildcard_constraints:
    **dict.fromkeys(("shard", "shards", "part", "parts", "share", "shares"), r"\d{5}"),
    split="|".join(SPLITS),
    run="|".join(map(re.escape, RUNS)),
    start="|".join(FINETUNE_STARTS),
    encoder="|".join(map(re.escape, FINETUNE_ALSO)),
    fold=r"\d+",


# Content decides whether a file or a module changed; what was read once is remembered.
MEMORY = FileMemory(".snakemake/remembered-digests.json")
# The digests of what a rule runs of an adapter: code_of("samples", "shard").
code_of = partial(job_digests, memory=MEMORY, known={})


def source(paths):
    """Files from outside the workflow, as inputs whose dates do not count: see `identities`."""
    return [ancient(local(str(path))) for path in paths]


def identities(paths):
    """The identity of each source file by its path, for `params`: its content, not its date."""
    with errors_in_words():
        return {str(path): MEMORY.identity(path) for path in paths if Path(path).is_file()}


def of_run(section, *keys, without=()):
    """Section `section` as the job's run sees it: `keys`, or all but those `without`."""

    def narrowed(wildcards):
        whole = run_section(settings, wildcards.run, section)
        return canonical({k: whole[k] for k in keys or whole if k in whole and k not in without})

    return narrowed


# What of a run's training changes its weights.
pretraining_of = of_run("pretraining", without=("checkpoint", "continue_from"))


def model_of(wildcards):
    """The model of the job's run, for `params`: with the content of its config file, if any."""
    return canonical(model_of_run(settings, wildcards.run))


def start_files_of(wildcards):
    """The files of the checkpoint that the job's run begins with; none of one on the Hub."""
    return source(checkpoint_files(run_section(settings, wildcards.run, "model")["start_from"]))


def operational(**values):
    """The param `operational`: settings that change no byte and rerun nothing, since Snakemake does
    not compare a param that a function makes from the job's outputs."""

    def of_job(wildcards, output):
        return {k: v(wildcards) if callable(v) else v for k, v in values.items()}

    return of_job


def publish_of(repository, *keys, **others):
    """Keys of section `publish` for a job, and `repository`: the {kind: name} that it publishes to."""
    return canonical(repository | {key: PUBLISH[key] for key in keys} | others)


def corpus_files(split):
    """The declared Parquet files of the documents of `split`, in order."""
    count = settings["corpus"]["count"][split]
    return [f"results/corpus/{file_name(split, share, count)}" for share in range(count)]


def shard_files(split, suffix="tfrecord"):
    """The declared shards of `split`, in order."""
    count = settings["shards"]["count"][split]
    return [f"results/shards/{split}/{split}-{i:05d}-of-{count:05d}.{suffix}" for i in range(count)]


def staged_shards(*splits):
    """The shards of `splits`, to be fetched if results are in a bucket. Jobs depend on manifests."""
    if workflow.storage_settings.default_storage_provider is None:
        return []
    return [file for split in splits for file in shard_files(split)]


def of_section(section, *keys):
    """The `keys` of a section that all runs share, for `params`."""
    return canonical({key: settings[section][key] for key in keys})


def made_by(*names, runs=RUNS):
    """The outputs of the rules `names`, for all `runs`, starts, encoders and folds, in order."""
    folds = {"start": FINETUNE_STARTS, "encoder": FINETUNE_ALSO, "fold": FINETUNE_FOLDS}
    outputs = [file for name in names for file in getattr(rules, name).output]
    return [path for file in outputs for path in expand(portable(file), run=runs, **folds)]


def unless_refused(files, reason):
    """`files` as the input of a target; without any, asking for the target ends with `reason`."""

    def of_target(wildcards):
        if not files:
            # Snakemake would show any other exception with wildcards and a traceback.
            raise SystemExit(reason)
        return files

    return of_target


def stored_tokens(manifest):
    """Tokens of a manifest's split; None where results live in a bucket: it is not here then."""
    return memory.tokens_of(manifest) if storage_settings.default_storage_provider is None else None


def start_of(run):
    """Which state of another run `run` begins with: that run and the step; None twice for none."""
    return run_section(settings, run, "pretraining")["continue_from"]


def checkpointing_of(wildcards):
    """Where and when the training of the job's run saves its state."""
    own = run_section(settings, wildcards.run, "pretraining")["checkpoint"]
    asked = {start["step"] for start in map(start_of, RUNS) if start["run"] == wildcards.run}
    return own | {"keep_steps": sorted(asked.union(own["keep_steps"]))}


def continuation_of(wildcards):
    """The settings of the run that the job's run continues, or None."""
    run = start_of(wildcards.run)["run"]
    if run is None:
        return None
    pretraining = run_section(settings, run, "pretraining")
    return {"name": run, "model": model_of_run(settings, run), "pretraining": pretraining}


def summary_of_continued_run(wildcards):
    """The training that the job's run continues; its date does not count."""
    run = start_of(wildcards.run)["run"]
    return [] if run is None else [ancient(f"results/runs/{run}/training.json")]


def corpus_files_of_shard(wildcards):
    """Those with documents of the job's shard: both are shares of the split, so that it is known
    without reading anything."""
    files = corpus_files(wildcards.split)
    return [files[i] for i in overlapping(int(wildcards.shard), int(wildcards.shards), len(files))]
