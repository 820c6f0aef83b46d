# What all rules share: the checked configuration, constants and paths.
import re
from functools import partial

from mlm.config.fields import SPLITS
from mlm.config.finetune import label_of
from mlm.config.memory_of_jobs import tokens_of
from mlm.config.overlays import all_named_files, files_of_other_runs
from mlm.config.configuration import trainings
from mlm.config.corpus import CorpusConfiguration
from mlm.config.overlays import settings_of
from mlm.config.tokenizer import TOKENIZER_FILES as TOKENIZER_NAMES
from mlm.corpus.artefacts import file_name, overlapping
from mlm.corpus.source_files import files_of_sources, filter_files
from mlm.foundations.artefacts import NotCompared, portable
from mlm.foundations.code_digests import job_digests
from mlm.foundations.digests import FileMemory
from mlm.model.model_files import checkpoint_files
from mlm.tokenizer.pretrained import source_files

with errors_in_words():
    settings = settings_of(workflow, config)
    CORPUS = CorpusConfiguration.of(settings.corpus, settings.seed)
    # Looked for before anything is planned: Snakemake takes the results of a missing file as done.
    FILES_OF_SOURCES, FILTER_FILES, TOKENIZER_SOURCE, OTHER_RUNS = all_named_files(
        settings if workflow.is_main_process else None,
        lambda: files_of_sources(CORPUS.corpus),
        lambda: filter_files(CORPUS),
        lambda: source_files(settings.tokenizer.directory),
        lambda: files_of_other_runs(settings.report.also),
    )

RUNS, REPORTED_RUNS = list(settings.runs), settings.reported_runs
TRAININGS = trainings(settings)
EVALUATIONS = {run: sections.evaluation for run, sections in settings.sections_of_runs().items()}
FINETUNE_STARTS, FINETUNE_FOLDS = ["pretrained", "random"], range(settings.finetune.folds)
FINETUNE_ALSO = {label_of(place): place for place in settings.finetune.also}
# Ids of the tokenizer, at most; None if it is not known before it is made.
VOCABULARY = settings.tokenizer.expected_size
BUCKET = workflow.storage_settings.default_storage_provider

TOKENIZER_FILES = [f"results/tokenizer/{name}" for name in TOKENIZER_NAMES]
TOKENIZER = {
    "tokenizer": "results/tokenizer/tokenizer.json",
    "tokenizer_settings": TOKENIZER_FILES[1:],
    "record": "results/tokenizer/tokenizer_stats.json",
}
TRAINED_ON = {
    "train": "results/manifests/train.json",
    "validation": "results/manifests/validation.json",
    "tokenizer": "results/tokenizer/tokenizer.json",
    "record": "results/tokenizer/tokenizer_stats.json",
}
MODEL_FILES = {
    "model": "results/runs/{run}/model/model.safetensors",
    "config": "results/runs/{run}/model/config.json",
    "tokenizer": [f"results/runs/{{run}}/model/{name}" for name in TOKENIZER_NAMES],
    "training": "results/runs/{run}/training.json",
    # Gone after a killed training, when the model is still that of the one before.
    "trained": ancient("results/runs/{run}/trained/training.json"),
}


wildcard_constraints:
    **dict.fromkeys(("shard", "shards", "part", "parts", "share", "shares"), r"\d{5}"),
    split="|".join(SPLITS),
    run="|".join(map(re.escape, RUNS)),
    start="|".join(FINETUNE_STARTS),
    encoder="|".join(map(re.escape, FINETUNE_ALSO)),
    fold=r"\d+",


# Content decides whether a file or a module changed; what was read once is remembered.
MEMORY = FileMemory(".snakemake/remembered-digests.json")
# Digests of the code of an adapter and a rule, for params.
code_of = partial(job_digests, memory=MEMORY, known={})


def identities(paths):
    """The identity of each file from outside the workflow, for params: its content, not its date."""
    with errors_in_words():
        return {str(path): MEMORY.identity(path) for path in paths if Path(path).is_file()}


def source(paths):
    """Files from outside the workflow, as inputs whose dates do not count: see `identities`."""
    return [ancient(local(str(path))) for path in paths]


def checkpoint_of_run(w):
    """The files of the checkpoint that the job's run begins with; none of one on the Hub."""
    return source(checkpoint_files(TRAININGS[w.run].model.start_from))


def in_directory(directory, files):
    """`files` by name, below `directory`."""
    return {name: f"{directory}/{file}" for name, file in files.items()}


def corpus_files(split):
    """The declared Parquet files of the documents of `split`, in order."""
    count = settings.corpus.files_of(split)
    return [f"results/corpus/{file_name(split, share, count)}" for share in range(count)]


def corpus_files_of_shard(w):
    """The corpus files with documents of the job's shard: both are shares of the split."""
    files = corpus_files(w.split)
    return [files[i] for i in overlapping(int(w.shard), int(w.shards), len(files))]


def shard_files(split, suffix="tfrecord"):
    """The declared shards of `split`, in order."""
    count = getattr(settings.shards.count, split)
    return [f"results/shards/{split}/{split}-{i:05d}-of-{count:05d}.{suffix}" for i in range(count)]


def staged_shards(*splits):
    """The shards of `splits`, to be fetched if results are in a bucket. Jobs depend on manifests."""
    return [file for split in splits if BUCKET for file in shard_files(split)]


def stored_tokens(manifest):
    """Tokens of a manifest's split; None where results live in a bucket: it is not here then."""
    return None if BUCKET else tokens_of(manifest)


def made_by(*names, runs=RUNS):
    """The outputs of the rules `names`, for all `runs`, starts, encoders and folds, in order."""
    folds = {"start": FINETUNE_STARTS, "encoder": FINETUNE_ALSO, "fold": FINETUNE_FOLDS}
    outputs = [file for name in names for file in getattr(rules, name).output]
    return [path for file in outputs for path in expand(portable(file), run=runs, **folds)]


def data_for_preflight(w):
    """Nothing if the configuration alone decides the steps of a run and their number."""
    training, trained_here = TRAININGS[w.run], settings.tokenizer.kind != "pretrained"
    alone = trained_here and training.pretraining.steps and not training.model.start_from
    return {} if alone else TRAINED_ON
