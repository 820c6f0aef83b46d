"""From what was measured on a sample to what the whole takes, stage by stage."""

import math
from dataclasses import dataclass

from mlm.check.data_rehearsal import DataMeasured
from mlm.check.sampled_text import SampledText
from mlm.check.stopwatch import Took, alone
from mlm.check.training_rehearsal import TrainingMeasured
from mlm.config.accelerator import Accelerator
from mlm.config.fields import SPLITS
from mlm.config.memory import evaluation_mb, training_mb
from mlm.config.pretraining import Pretraining
from mlm.config.resolution import Settings, model_of_run, run_section
from mlm.foundations.errors import MlmError
from mlm.tokenizer.statistics import MOST_BYTES
from mlm.tokenizer.tokenizer_settings import expected_vocabulary

#: Seconds that a job takes whatever its data: to start, to import, to open a model. As measured
#: where importing the frameworks took `IMPORT_SECONDS`; another machine's are in proportion.
FIXED = {
    "corpus": 0.6,
    "tokenizer": 0.8,
    "shard": 0.8,
    "manifest": 0.2,
    "masked_samples": 1.1,
    "pretrain": 5.0,
    "keep_model": 0.2,
    "evaluate": 7.0,
    "fill_mask": 6.2,
    "asked": 0.8,
    "report": 2.3,
}
IMPORT_SECONDS = 3.6
#: Snakemake: to begin and to plan, and beside each job.
_SNAKEMAKE, _BESIDE_A_JOB = 4.0, 0.4
#: Processor seconds, on the same machine, for each byte of train's text that is looked up for the
#: report, and counted for the baselines; and beyond that size none is looked up.
_LOOKED_UP, _LARGEST_LOOKED_UP = 2.8e-7, 100_000_000
_COUNTED = 4.0e-8
#: Bytes of a report with its figures, and of the other small files of a run: logs of training,
#: evaluation, samples and the like.
_REPORT, _FILES_OF_RUN, _FILES_OF_DATA = 570_000, 330_000, 12_000


@dataclass
class Stage:
    """A stage, with what it takes; None where that is not known here."""

    name: str
    took: Took | None
    disk: float | None
    memory_mb: int | None = None
    there: str = ""


@dataclass(frozen=True)
class Size:
    """A split of the whole corpus: bytes of text, documents, tokens and samples."""

    text: float
    documents: float
    tokens: float
    samples: float


def sizes_of(settings: Settings, text: SampledText, data: DataMeasured) -> dict[str, Size] | None:
    """The splits of the whole corpus, after its filters; None where its size is not known."""
    if text.bytes is None or text.counts is None:
        return None
    length, found = settings["shards"]["sequence_length"], {}
    for split in SPLITS:
        kept = text.bytes[split] * data.kept
        tokens = kept * data.tokens_per_byte
        # The last sample of each shard is filled up.
        samples = math.ceil(tokens / length + settings["shards"]["count"][split] / 2)
        found[split] = Size(kept, text.counts[split] * data.kept, tokens, samples)
    return found


def stages_of_data(
    settings: Settings, sizes: dict[str, Size] | None, data: DataMeasured, slower: float, cores: int
) -> list[Stage]:
    """Corpus, tokenizer and shards; `slower` is how this machine compares in starting a job."""
    fixed = {name: alone(seconds * slower) for name, seconds in FIXED.items()}
    tokenizer = settings["tokenizer"]
    if sizes is None:
        return [Stage(name, None, None) for name in ("corpus", "tokenizer", "shards")]
    text = sum(size.text for size in sizes.values())
    tokens = sum(size.tokens for size in sizes.values())
    times = text / (data.text_bytes * data.kept)
    corpus = fixed["corpus"] + data.corpus * times
    looked_at = sum(min(size.text, MOST_BYTES) for size in sizes.values()) / text
    trained = fixed["tokenizer"] + data.training + data.encoding * (times * looked_at)
    count = sum(settings["shards"]["count"].values())
    # Side by side, and then the three manifests.
    each = fixed["shard"] + alone(_BESIDE_A_JOB * slower)
    sharding = each * count + data.sharding * times + fixed["manifest"] * 3
    sharding.seconds /= min(cores, count)
    read = min(sizes["train"].text, tokenizer["max_training_bytes"])
    return [
        Stage("corpus", corpus, text * data.parquet_per_byte + _FILES_OF_DATA, 2000),
        Stage("tokenizer", trained, data.tokenizer_bytes, 2000 + int(20 * read / 1e6)),
        Stage("shards", sharding, tokens * data.shard_per_token + _FILES_OF_DATA, 2000),
    ]


def updates(settings: Settings, run: str, sizes: dict[str, Size] | None, batch: int) -> int | None:
    """Updates that run `run` makes, less those that another run has made for it; None where that
    depends on a size that is not known. `batch` is the global batch.

    Raises MlmError where the split has not enough samples for one.
    """
    section = run_section(settings, run, "pretraining")
    length = settings["shards"]["sequence_length"]
    if sizes is None and section["epochs"]:
        return None
    samples = int(sizes["train"].samples) if sizes else 0
    if sizes and batch > samples:
        raise MlmError(
            f"{run}: one step takes {batch:,} samples (batch × replicas × accumulation), and the "
            f"train split will have about {samples:,} of {length} tokens. Lower "
            "pretraining.per_replica_batch_size, or add text"
        )
    steps = Pretraining.of_param(section).updates(samples, length, batch)
    return steps - (section["continue_from"]["step"] or 0)


def stages_of_run(
    settings: Settings,
    run: str,
    sizes: dict[str, Size] | None,
    data: DataMeasured,
    training: TrainingMeasured | None,
    slower: float,
) -> list[Stage]:
    """Training and evaluation of run `run`, and what is asked of it for the report."""
    fixed = {name: alone(seconds * slower) for name, seconds in FIXED.items()}
    beside = alone(_BESIDE_A_JOB * slower)
    model, section = model_of_run(settings, run), run_section(settings, run, "pretraining")
    evaluation = run_section(settings, run, "evaluation")
    length = settings["shards"]["sequence_length"]
    vocabulary = expected_vocabulary(settings["tokenizer"])
    train, test = (int(sizes[s].samples * length) if sizes else None for s in ("train", "test"))
    evaluated_mb = evaluation_mb(model, vocabulary, length, train, test, evaluation["max_tokens"])
    name = f"[{run}]"
    if training is None:
        return [Stage(f"pretrain {name}", None, None), Stage(f"evaluate {name}", None, None)]
    steps = updates(settings, run, sizes, training.batch)
    memory = training_mb(
        *(model, section, vocabulary, length),
        replicas=training.replicas,
        lanes=Accelerator.of_param(settings["accelerator"]).lanes(
            section["per_replica_batch_size"]
        ),
        on_host=training.kind == "cpu",
        tokens=train,
    )
    disk = _disk(section, steps, training)
    if sizes is None or steps is None:
        took = None if steps is None else training.begun + training.step * steps
        return [
            Stage(f"pretrain {name}", took, disk, memory),
            Stage(f"evaluate {name}", None, None, evaluated_mb),
        ]
    times = sizes["train"].text / (data.text_bytes * data.kept)
    validated = sizes["validation"].samples
    if section["validation"]["samples"]:
        validated = min(validated, section["validation"]["samples"])
    validations = math.ceil(steps / section["validation"]["every"])
    saves = math.ceil(steps / section["checkpoint"]["every"])
    trained = (
        fixed["pretrain"]
        + training.begun
        + training.counted * max(1.0, times**0.5)
        + training.step * steps
        + training.validated * (validations * validated)
        + training.saved * saves
        + fixed["keep_model"]
        + fixed["masked_samples"]
        + beside * 3
    )
    scored = min(sizes["test"].samples, evaluation["max_tokens"] // length)
    of_train = evaluation["train_samples"]
    scored += min(scored if of_train is None else of_train, sizes["train"].samples)
    looked_up = sizes["train"].text * _LOOKED_UP * slower
    if sizes["train"].text > _LARGEST_LOOKED_UP or "asked" not in settings["report"]["sections"]:
        looked_up = 0.0
    evaluated = (
        fixed["evaluate"]
        + training.validated * scored
        + alone(sizes["train"].text * _COUNTED * slower)
        + fixed["fill_mask"]
        + fixed["asked"]
        + alone(looked_up)
        + beside * 3
    )
    return [
        Stage(f"pretrain {name}", trained, disk, memory),
        Stage(f"evaluate {name}", evaluated, _FILES_OF_RUN, evaluated_mb),
    ]


def _disk(section: dict, steps: int | None, training: TrainingMeasured) -> float | None:
    """Bytes of the model, which is there twice, and of the states that are kept."""
    checkpoint = section["checkpoint"]
    kept = checkpoint["keep"]
    if kept == "all" or kept is None:
        if steps is None:
            return None
        kept = math.ceil(steps / checkpoint["every"])
    elif steps is not None:
        kept = min(kept, math.ceil(steps / checkpoint["every"]))
    kept += len(checkpoint["keep_steps"])
    return 2 * training.model_bytes + kept * training.state_bytes


def together(settings: Settings, stages: list[Stage], slower: float, cores: int) -> Stage:
    """All stages, with Snakemake itself and the report; times None where one is not known."""
    report = FIXED["report"] * slower
    own = alone((_SNAKEMAKE + 3 * _BESIDE_A_JOB) * slower + report)
    known = [stage.took for stage in stages if stage.took is not None]
    of_runs = [s.took for s in stages if s.took and s.name.startswith(("pretrain", "evaluate"))]
    total = sum(known, own)
    # Runs go side by side where there are cores for more than one.
    threads = max(2, settings["accelerator"]["cpu_threads"])
    beside = max(1, min(len(settings["runs"]), cores // threads))
    total.seconds -= sum(took.seconds for took in of_runs) * (1 - 1 / beside)
    disks = [stage.disk for stage in stages]
    disk = None if None in disks else sum(filter(None, disks)) + _REPORT
    memory = max((stage.memory_mb or 0 for stage in stages), default=0)
    return Stage("in all", None if len(known) < len(stages) else total, disk, memory or None)
