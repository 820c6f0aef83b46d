"""From what was measured on a sample to the time, disk and memory of each stage of a whole run."""

import math
from dataclasses import dataclass

from mlm.check.rehearsal import Data, Steps, TimeRange
from mlm.check.sample import Sample
from mlm.config.fields import SPLITS
from mlm.config.memory import memory_of_evaluation, memory_of_training
from mlm.config.resolution import Settings, run_section
from mlm.config.run import RunConfiguration
from mlm.foundations.errors import MlmError

#: Seconds of a stage's jobs whatever their data: to start, to import and to open a model; and of
#: Snakemake itself with the report.
_FIXED = {"corpus": 1, "tokenizer": 1, "shards": 3, "pretrain": 8, "evaluate": 15, "in all": 8}
#: What is measured on a sample is this much off, below and above.
_LEAST, _MOST = 0.7, 1.4
#: Processor seconds for each byte of train that the baselines count, and that is looked up for the
#: report; and the largest text in which that is done.
_COUNTED, _LOOKED_UP, _LARGEST_LOOKED_UP = 4.0e-8, 2.8e-7, 100_000_000
#: Bytes of a report with its figures, of the small files of a run, and of those of a data stage.
_REPORT, _FILES_OF_RUN, _FILES_OF_DATA = 570_000, 330_000, 12_000


@dataclass(frozen=True)
class StageEstimate:
    """A stage with its time, its bytes on disk and its memory; None: not known here."""

    name: str
    time: TimeRange | None = None
    disk: float | None = None
    memory_mb: int | None = None


def _stage(
    name: str, measured: TimeRange | None, disk: float | None, memory_mb: int | None
) -> StageEstimate:
    fixed = _FIXED[name.split(" [")[0]]
    time = measured and TimeRange(
        fixed / 2 + measured.least * _LEAST, fixed * 1.5 + measured.most * _MOST
    )
    return StageEstimate(name, time, disk, memory_mb)


@dataclass(frozen=True)
class Size:
    """A split of the whole corpus: bytes of text, documents, tokens and samples."""

    text: float
    documents: float
    tokens: float
    samples: int


def sizes_of(sample: Sample, data: Data) -> dict[str, Size] | None:
    """The splits of the whole corpus, after its filters; None if its size is not known.

    Of a sample, at most: duplicates are looked for within it.
    """
    if sample.scale is None:
        return None
    found = {}
    for split in SPLITS:
        made, scale = data.splits[split], sample.scale[split]
        samples = math.ceil(data.samples[split] * scale)
        tokens = data.tokens[split] * scale
        found[split] = Size(made.bytes * scale, made.documents * scale, tokens, samples)
    return found


def stages_of_data(
    settings: Settings, sizes: dict[str, Size] | None, data: Data, cores: int
) -> list[StageEstimate]:
    """Corpus, tokenizer and shards."""
    if sizes is None:
        return [StageEstimate(name) for name in ("corpus", "tokenizer", "shards")]
    of_sample = sum(split.bytes for split in data.splits.values())
    times = sum(size.text for size in sizes.values()) / of_sample
    parquet = sum(file.bytes for split in data.splits.values() for file in split.files)
    section = settings["tokenizer"]
    read = min(sizes["train"].text, section["max_training_bytes"])
    # The trainers see each word once: new ones become rarer (Heaps' law).
    trained = data.tokenizer * max(1.0, read / data.splits["train"].bytes) ** 0.6
    side_by_side = min(cores, sum(settings["shards"]["count"].values()))
    sharded = TimeRange(data.shards.least / side_by_side, data.shards.most) * times
    return [
        _stage("corpus", data.corpus * times, parquet * times + _FILES_OF_DATA, 2000),
        _stage("tokenizer", trained, data.tokenizer_bytes, 2000 + int(20 * read / 1e6)),
        _stage("shards", sharded, data.shard_bytes * times + _FILES_OF_DATA, 2000),
    ]


def updates(run: RunConfiguration, sizes: dict[str, Size] | None, batch: int) -> int | None:
    """Updates that `run` makes, less those that another run has made for it.

    None if that depends on a size that is not known. `batch` is the global batch. Raises MlmError
    if the split has too few samples for one.
    """
    section, length = run.pretraining, run.sequence_length
    if sizes is None and section.epochs:
        return None
    samples = sizes["train"].samples if sizes else 0
    if sizes and batch > samples:
        raise MlmError(
            f"{run.name}: one step takes {batch:,} samples (batch × replicas × accumulation), and "
            f"the train split will have about {samples:,} of {length} tokens. Lower "
            "pretraining.per_replica_batch_size, or add text"
        )
    return section.updates(samples, length, batch) - (section.continue_from.step or 0)


def stages_of_run(
    settings: Settings, run: RunConfiguration, sizes: dict[str, Size] | None, steps: Steps | None
) -> list[StageEstimate]:
    """Training and evaluation of `run`; `steps` is None if nothing could be timed."""
    names = f"pretrain [{run.name}]", f"evaluate [{run.name}]"
    if steps is None:
        return [StageEstimate(name) for name in names]
    section, length = run.pretraining, run.sequence_length
    evaluation = run_section(settings, run.name, "evaluation")
    train, test = (sizes[s].samples * length if sizes else None for s in ("train", "test"))
    evaluated_mb = memory_of_evaluation(settings, run.name, train, test)
    number = updates(run, sizes, steps.batch)
    on_host = steps.kind == "cpu"
    memory = memory_of_training(settings, run.name, train, steps.replicas, on_host)
    disk = _disk(section, number, steps)
    if number is None or sizes is None:
        trained = None if number is None else steps.begun + steps.step * number
        return [
            _stage(names[0], trained, disk, memory),
            StageEstimate(names[1], memory_mb=evaluated_mb),
        ]
    validated = min(sizes["validation"].samples, section.validation.samples or math.inf)
    trained = (
        steps.begun
        + steps.step * number
        + steps.validated * (math.ceil(number / section.validation.every) * validated)
        + steps.saved * math.ceil(number / section.checkpoint.every)
    )
    scored = min(sizes["test"].samples, evaluation["max_tokens"] // length)
    scored += min(evaluation["train_samples"] or scored, sizes["train"].samples)
    text = sizes["train"].text
    read = text * (_COUNTED + (_LOOKED_UP if text <= _LARGEST_LOOKED_UP else 0.0))
    evaluated = steps.validated * scored + TimeRange(read, read)
    return [
        _stage(names[0], trained, disk, memory),
        _stage(names[1], evaluated, _FILES_OF_RUN, evaluated_mb),
    ]


def _disk(section, number: int | None, steps: Steps) -> float | None:
    """Bytes of the model, which is there twice, and of the states that are kept."""
    checkpoint = section.checkpoint
    every = None if number is None else math.ceil(number / checkpoint.every)
    kept = every if checkpoint.keep in ("all", None) else min(checkpoint.keep, every or math.inf)
    if kept is None:
        return None
    return 2 * steps.model_bytes + (kept + len(checkpoint.keep_steps)) * steps.state_bytes


def together(settings: Settings, stages: list[StageEstimate], cores: int) -> StageEstimate:
    """All stages, with Snakemake itself and the report; a time or a size that is missing in one
    is not known."""
    threads = max(2, settings["accelerator"]["cpu_threads"])
    # Runs go side by side if there are cores for more than one.
    beside = max(1, min(len(settings["runs"]), cores // threads))
    times = [
        s.time * (1 / beside if s.time and s.name.startswith(("pretrain", "evaluate")) else 1)
        for s in stages
        if s.time
    ]
    time = sum(times, TimeRange(_FIXED["in all"] / 2, _FIXED["in all"] * 1.5))
    disks = [stage.disk for stage in stages]
    disk = None if None in disks else sum(filter(None, disks)) + _REPORT
    memory = max((stage.memory_mb or 0 for stage in stages), default=0)
    return StageEstimate(
        "in all", time if len(times) == len(stages) else None, disk, memory or None
    )
