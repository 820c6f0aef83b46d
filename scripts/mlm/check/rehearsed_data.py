"""A sample of the corpus goes through the stages that make the data."""

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from mlm.config.configuration import Configuration, families_of
from mlm.config.corpus import Corpus, CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.config.memory_of_jobs import memory_of_tokenizer
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.bytes_to_text import decompressed
from mlm.corpus.corpus_building import build_corpus
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.corpus.document_formats import read_documents
from mlm.corpus.embedded_corpus import PACKAGE
from mlm.corpus.source_files import Part, SplitFiles, file_format, matched_files
from mlm.foundations.terminal import in_bytes
from mlm.samples.sharding import write_shard
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.tokenizer_statistics import make_tokenizer
from mlm.tokenizer.vocabulary_training import CorpusTooSmall
from mlm.training.resolved_run import RunFiles

#: A corpus of at most so many bytes on disk goes through the stages as it is.
READ_WHOLE = 16_000_000
#: Files of a larger one that are looked into, of each split; characters of each that go through the
#: stages, and that are read, since a file's readers are some megabytes ahead.
_FILES, _BEGINNING, _LOOKED_AT = 5, 400_000, 16_000_000


@dataclass(frozen=True)
class Stage:
    """A stage with its time in seconds and its memory; None: not known here."""

    name: str
    seconds: float | None = None
    memory_mb: int | None = None
    on_request: bool = False  # not made by `snakemake` without a target


@dataclass(frozen=True)
class Size:
    """A split of the whole corpus: bytes of text, documents, tokens and samples."""

    text: float
    documents: float
    tokens: float
    samples: int


@dataclass(frozen=True)
class Data:
    """What the sample, whose files are `files`, says of the whole corpus: its `sizes`; `whole` if
    the sample is all of it."""

    source: str
    whole: bool
    sizes: dict[str, Size]
    stages: list[Stage]
    files: RunFiles
    vocabulary: int


def rehearse_data(settings: Configuration, directory: Path) -> Data:
    """Make corpus, tokenizer and shards of a sample below `directory`, as the rules do; MlmError
    as from them, except if only the sample is too small for the vocabulary."""
    configuration, files, scale, source = _sample_of(
        CorpusConfiguration.of(settings.corpus, settings.seed), directory / "cut"
    )
    whole, results, times = set(scale.values()) == {1.0}, directory / "results", [time.monotonic()]
    (results / "corpus").mkdir(parents=True)
    described = {split: str(results / "corpus" / f"{split}.json") for split in SPLITS}
    parquet = {split: [str(results / "corpus" / f"{split}.parquet")] for split in SPLITS}
    splits = build_corpus(configuration, [Part(files=files)], parquet, described)
    times.append(time.monotonic())
    tokenizer, section = results / "tokenizer" / "tokenizer.json", settings.tokenizer
    make = partial(
        make_tokenizer,
        {split: SplitDocuments.described(described[split]) for split in SPLITS},
        families=families_of(settings) if section.kind == "pretrained" else [],
        tokenizer=tokenizer,
        stats=results / "tokenizer_stats.json",
    )
    try:
        make(section=section)
    except CorpusTooSmall as error:
        if whole:
            raise
        make(section=section.model_copy(update={"vocabulary_size": error.ids}))
    times.append(time.monotonic())
    encoder, sizes = Encoder.load(tokenizer), {}
    manifests = {split: str(results / "manifests" / f"{split}.json") for split in SPLITS}
    for split, text in splits.items():
        file = results / "shards" / split / f"{split}-00000-of-00001.tfrecord"
        shard = write_shard(file, (0, 1), described[split], settings.shards, encoder, tokenizer)
        shard.write(manifests[split])
        sizes[split] = Size(
            text=text.bytes * scale[split],
            documents=text.documents * scale[split],
            tokens=shard.num_tokens * scale[split],
            samples=math.ceil(shard.num_samples * scale[split]),
        )
    times.append(time.monotonic())
    seconds = [after - before for before, after in pairwise(times)]
    stages = _stages_of_data(settings, sizes, splits, seconds)
    run_files = RunFiles(str(tokenizer), {split: manifests[split] for split in SPLITS[:2]})
    return Data(source, whole, sizes, stages, run_files, encoder.vocabulary_size)


def _stages_of_data(
    settings: Configuration,
    sizes: Mapping[str, Size],
    sample: Mapping[str, CorpusSplit],
    seconds: Sequence[float],
) -> list[Stage]:
    """Corpus, tokenizer and shards of the whole, from the seconds of each for the sample."""
    section, train = settings.tokenizer, sizes["train"].text
    larger = sum(size.text for size in sizes.values()) / sum(text.bytes for text in sample.values())
    # The trainers see each word once: new ones become rarer (Heaps' law).
    words = max(1.0, min(train, section.max_training_bytes) / sample["train"].bytes) ** 0.6
    beside = min(usable_cores(), sum(getattr(settings.shards.count, split) for split in SPLITS))
    return [
        Stage("corpus", 1 + seconds[0] * larger, 2000),
        Stage("tokenizer", 1 + seconds[1] * words, memory_of_tokenizer(section, train)),
        Stage("shards", 3 + seconds[2] * larger / beside, 2000),
    ]


def usable_cores() -> int:
    """Cores that this process may use; all where the system does not say which (macOS)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sample_of(
    configuration: CorpusConfiguration, directory: Path
) -> tuple[CorpusConfiguration, SplitFiles, dict[str, float], str]:
    """Return what `build_corpus` takes, how many times larger whole splits are, and the source."""
    whole: dict[str, float] = dict.fromkeys(SPLITS, 1.0)
    corpus = configuration.corpus
    if corpus.source == "embedded":
        return configuration, {}, whole, f"the addresses of {PACKAGE}"
    files = matched_files(corpus.files)
    on_disk = sum(os.path.getsize(path) for paths in files.values() for path in paths)
    number = sum(map(len, files.values()))
    source = f"{number:,} file{'s' if number > 1 else ''} of {in_bytes(on_disk)}"
    if on_disk <= READ_WHOLE:
        return configuration, files, whole, source
    cut: dict[str, list[str]] = {}
    directory.mkdir()
    for split, paths in files.items():
        cut[split], whole[split] = _beginnings(paths, directory / f"{split}.jsonl", corpus)
    for split in corpus.missing_splits:
        whole[split] = whole["train"]
    # A few files may have too few groups to divide.
    corpus = corpus.with_defaults("text_column", "group_by", "group_per")
    return configuration.model_copy(update={"corpus": corpus}), cut, whole, source


def _beginnings(paths: Sequence[str], copy: Path, corpus: Corpus) -> tuple[list[str], float]:
    """Write a file of the first documents of some `paths`. Return it, and how much more all are."""
    reading = corpus.with_defaults("group_by")
    sampled = paths[:: max(1, -(-len(paths) // _FILES))]
    lines, written, in_sampled = [], 0, 0.0
    for path in sampled:
        kind, compression = file_format(path)
        documents, characters, share = 0, 0, 1.0
        with open(path, "rb") as file, decompressed(file, compression) as stream:
            for document in read_documents(stream, path, kind, reading):
                if characters < _BEGINNING:
                    lines.append(json.dumps({"text": document.text}))
                    written += len(document.text)
                documents, characters = documents + 1, characters + len(document.text)
                if characters >= _LOOKED_AT:
                    share = file.tell() / os.path.getsize(path)
                    break
        if kind == "parquet":  # which is not read from its beginning
            share = documents / max(1, pq.read_metadata(path).num_rows)
        in_sampled += characters / share
    if not paths:
        return [], 1.0
    copy.write_text("\n".join(lines) + "\n", encoding="utf-8")
    others = sum(map(os.path.getsize, paths)) / sum(map(os.path.getsize, sampled))
    return [str(copy)], others * in_sampled / max(1, written)
