"""A rehearsal: a sample of the corpus goes through the stages, and a run makes a few steps."""

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlm.check.sample import Sample
from mlm.config.fields import SPLITS
from mlm.config.memory import parameters
from mlm.config.resolution import Settings
from mlm.config.run import RunConfiguration
from mlm.config.tokenizer import Shards, expected_vocabulary
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.corpus_building import build_corpus
from mlm.corpus.split_documents import SplitDocuments
from mlm.samples.sharding import merged_manifest, write_shard
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.tokenizer_building import make_tokenizer
from mlm.tokenizer.tokenizer_settings import CorpusTooSmall
from mlm.training.engine import Devices, Engine, engine_of
from mlm.training.run import RunFiles
from mlm.training.run_inputs import read_manifests, run_of

#: Seconds, and steps, for which steps are timed.
_TIMED_SECONDS, _TIMED_STEPS = 1.0, 50
#: Samples of a timed validation.
_VALIDATED = 100
#: Floating-point operations of the largest step that is timed: some seconds of two processors.
_LARGEST_STEP = 2e11


@dataclass(frozen=True)
class TimeRange:
    """Seconds: at least, as if nothing else ran here; at most, beside what runs here now."""

    least: float = 0.0
    most: float = 0.0

    def __add__(self, other: "TimeRange") -> "TimeRange":
        return TimeRange(self.least + other.least, self.most + other.most)

    def __mul__(self, times: float) -> "TimeRange":
        return TimeRange(self.least * times, self.most * times)


class Stopwatch:
    """Measures the time since it was made."""

    def __init__(self):
        self._began, self._processors = time.monotonic(), sum(os.times()[:4])

    def span(self, threads: int | None = 1) -> TimeRange:
        """The time of work that keeps `threads` processors busy; None: a device is waited for."""
        passed = time.monotonic() - self._began
        busy = sum(os.times()[:4]) - self._processors
        return TimeRange(min(passed, busy / threads) if threads else passed, passed)


@dataclass
class Data:
    """The sample after corpus, tokenizer and shards, and the time of each stage.

    `enough` is the largest vocabulary that the sample's text gives, if that is less than asked for.
    """

    splits: dict[str, CorpusSplit]
    files: RunFiles
    tokens: dict[str, int]
    samples: dict[str, int]
    shard_bytes: int
    tokenizer_bytes: int
    vocabulary: int
    enough: int | None
    corpus: TimeRange
    tokenizer: TimeRange
    shards: TimeRange


def rehearse_data(settings: Settings, sample: Sample, directory: Path) -> Data:
    """Make corpus, tokenizer and shards of the sample below `directory`, as the rules do.

    Raises MlmError as they do, except if only the sample is too small for the vocabulary.
    """
    results = directory / "results"
    place = results / "corpus"
    place.mkdir(parents=True)
    described = {split: str(place / f"{split}.json") for split in SPLITS}
    parquet = {split: [str(place / f"{split}.parquet")] for split in SPLITS}
    watch = Stopwatch()
    splits = build_corpus(sample.settings, sample.files, parquet, described)
    corpus = watch.span()
    corpora = {split: SplitDocuments.described(described[split]) for split in SPLITS}

    section, enough, watch = settings["tokenizer"], None, Stopwatch()
    tokenizer = results / "tokenizer" / "tokenizer.json"
    outputs = SimpleNamespace(tokenizer=tokenizer, stats=results / "tokenizer_stats.json")
    families = [RunConfiguration.of(settings, run).model.model_type for run in settings["runs"]]
    if section["kind"] != "pretrained":
        families = []
    try:
        make_tokenizer(corpora, section, families, outputs)
    except CorpusTooSmall as error:
        if sample.is_all:
            raise
        enough = error.ids
        make_tokenizer(corpora, section | {"vocabulary_size": enough}, families, outputs)
    tokenizing, watch = watch.span(), Stopwatch()

    encoder, shards = Encoder.load(tokenizer), Shards.of_param(settings["shards"])
    manifests = {split: str(results / "manifests" / f"{split}.json") for split in SPLITS}
    tokens, samples, shard_bytes = {}, {}, 0
    for split in SPLITS:
        name = f"results/shards/{split}/{split}-00000-of-00001.tfrecord"
        file = directory / name
        file.parent.mkdir(parents=True)
        made = write_shard(split, 0, 1, shards, encoder, tokenizer, corpora[split], file)
        manifest = merged_manifest(split, [(name, made)], splits[split], tokenizer, directory)
        manifest.write(manifests[split])
        tokens[split], samples[split] = made.num_tokens, made.num_samples
        shard_bytes += made.num_bytes
    return Data(
        splits=splits,
        files=RunFiles(str(tokenizer), {s: manifests[s] for s in ("train", "validation")}),
        tokens=tokens,
        samples=samples,
        shard_bytes=shard_bytes,
        tokenizer_bytes=bytes_below(tokenizer.parent),
        vocabulary=encoder.vocabulary_size,
        enough=enough,
        corpus=corpus,
        tokenizer=tokenizing,
        shards=watch.span(),
    )


@dataclass(frozen=True)
class Steps:
    """The time of a run's training: `begun` once, `step` for an update, `validated` for a sample
    of validation, `saved` for a state; and the bytes of a state and of the model."""

    kind: str
    replicas: int
    batch: int
    begun: TimeRange = TimeRange()
    step: TimeRange = TimeRange()
    validated: TimeRange = TimeRange()
    saved: TimeRange = TimeRange()
    state_bytes: int = 0
    model_bytes: int = 0


def rehearse_steps(
    settings: Settings, run: RunConfiguration, data: Data, devices: Devices, directory: Path
) -> Steps:
    """Make a few updates of `run` on `devices`, one validation and one save.

    If a batch is too large for moments, or for the sample, a part of it is timed. Raises MlmError
    as the training does if the model cannot be built.
    """
    section = run.pretraining
    accumulated = section.optimizer.gradient_accumulation_steps
    size = _fitting(settings, run, data, devices.replicas)
    if devices.framework == "tensorflow" and devices.kind == "cpu":
        # The devices may have been opened for another run's batch.
        devices = replace(devices, lanes=run.accelerator.lanes(size))
    timed = run.with_values(
        pretraining={
            "per_replica_batch_size": size,
            "optimizer": section.optimizer.model_copy(update={"gradient_accumulation_steps": 1}),
            "validation": section.validation.model_copy(update={"samples": _VALIDATED}),
            # Long enough for whatever the schedule asks.
            **{"steps": 1_000_000, "epochs": None, "tokens": None},
        },
    )
    # A device that is waited for keeps no processor busy.
    threads = settings["accelerator"]["cpu_threads"] if devices.kind == "cpu" else None
    watch = Stopwatch()
    manifests = read_manifests(data.files, run.sequence_length)
    engine = engine_of(run_of(timed, data.files, manifests, devices.replicas), devices)
    if run.model.initialisation.embeddings == "cooccurrence":
        engine.start_from_counts()
    engine.advance(1)
    engine.validate()
    begun = watch.span()
    step = _of_one_step(engine, section.steps_per_execution, threads)
    watch = Stopwatch()
    engine.validate()
    samples = min(_VALIDATED, manifests["validation"].num_samples)
    validated, watch = watch.span(threads) * (1 / max(1, samples)), Stopwatch()
    state, model = directory / "state", directory / "model"
    state.mkdir(parents=True)
    engine.write(str(state))
    saved = watch.span()
    engine.exported().write(str(model))
    return Steps(
        kind=devices.kind,
        replicas=devices.replicas,
        batch=section.per_replica_batch_size * accumulated * devices.replicas,
        begun=begun,
        step=step * (section.per_replica_batch_size * accumulated / size),
        validated=validated,
        saved=saved,
        state_bytes=bytes_below(state),
        model_bytes=bytes_below(model),
    )


def shape_of(run: RunConfiguration) -> Any:
    """What decides how long a step of `run` takes; runs of the same shape are timed once."""
    own = run.pretraining.model_dump()
    names = ("masking", "per_replica_batch_size", "attend", "rematerialise", "shard_optimizer")
    optimizer = own["optimizer"]["name"], own["optimizer"]["gradient_accumulation_steps"]
    return run.engine, run.model.model_dump(), optimizer, *(own[name] for name in names)


def _fitting(settings: Settings, run: RunConfiguration, data: Data, replicas: int) -> int:
    """How many samples of a replica's batch are timed."""
    vocabulary = expected_vocabulary(settings["tokenizer"])
    weights = parameters(run.model.model_dump(), vocabulary, run.sequence_length)
    most = int(_LARGEST_STEP / (6 * weights * run.sequence_length))
    whole = run.pretraining.per_replica_batch_size
    return max(1, min(whole, most, data.samples["train"] // replicas))


def _of_one_step(engine: Engine, at_once: int, threads: int | None) -> TimeRange:
    """The mean of as many updates as there is time for."""
    begun, made, watch = time.monotonic(), 0, Stopwatch()
    while made < _TIMED_STEPS and time.monotonic() - begun < _TIMED_SECONDS:
        engine.advance(at_once)
        made += at_once
    return watch.span(threads) * (1 / made)


def bytes_below(directory: Path) -> int:
    """The sizes of all files below `directory`; 0 if it is not there."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
