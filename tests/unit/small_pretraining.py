"""A pretraining of the smallest size, built directly: for tests of its step."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from mlm.config.model import Initialisation, ModelOfRun
from mlm.config.pretraining import Checkpoint, Optimizer, Pretraining, Validation
from mlm.samples.manifests import Manifest, ShardEntry, totals
from mlm.samples.tfrecord import SampleWriter

VOCABULARY, LENGTH, SAMPLES = 64, 16, 50


def small_pretraining(
    root: Path,
    settings: dict | None = None,
    optimizer: str = "muon",
    accumulated: int = 1,
    **overrides,
):
    """A Run of one layer of width 16, on 50 samples of 16 tokens; `settings` are of its section."""
    from transformers import RobertaConfig

    from mlm.samples.masking import MaskingPlan
    from mlm.samples.split_samples import ShardBlocks, ShardFiles
    from mlm.training.optimisation import with_lengths
    from mlm.training.run import Run

    file = root / "train.tfrecord"
    if not file.exists():
        writer = SampleWriter(file)
        ids = np.random.default_rng(0).integers(5, VOCABULARY, (SAMPLES, LENGTH))
        writer.write(ids, np.full(SAMPLES, LENGTH))
        writer.close()
    shards = ShardFiles((ShardBlocks(str(file), file.name, SAMPLES, (0,)),), LENGTH)
    plan = MaskingPlan(0.15, 0.8, 0.1, 4, (0, 1, 2, 3, 4), VOCABULARY, LENGTH)
    config = RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH + 2,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    optimizer = Optimizer(
        name=optimizer,
        learning_rate=1e-3,
        warmup_ratio=0.1,
        weight_decay=0.01,
        gradient_accumulation_steps=accumulated,
    )
    section = Pretraining(
        seed=1,
        optimizer=with_lengths(optimizer, 100),
        per_replica_batch_size=8,
        steps=100,
        shuffle_window=20,
        validation=Validation(every=50, samples=None),
        log_every=10,
        steps_per_execution=5,
        checkpoint=Checkpoint(every=50),
    )
    run = Run(
        name="small",
        model=ModelOfRun(initialisation=Initialisation(attention="standard", embeddings="random")),
        pretraining=section.model_copy(update=settings or {}),
        plan=plan,
        validation_plan=plan,
        train=shards,
        validation=shards,
        model_config=config,
    )
    return replace(run, **overrides)


def write_manifest_of(path: Path, *, samples: int = SAMPLES, shards: int = 4, place="results"):
    """A manifest file of `shards` shards below `place`, whose shards need not exist."""
    each, rest = divmod(samples, shards)

    def entry(number: int) -> ShardEntry:
        name, count = f"train-{number:05d}-of-{shards:05d}.tfrecord", each + (number < rest)
        sizes = {"num_samples": count, "num_tokens": count * LENGTH, "num_padding": 0}
        where = {"name": name, "path": f"{place}/{name}", "block_offsets": (0,)}
        return ShardEntry(**where, **sizes, num_bytes=1, sha256="0" * 64)

    entries = tuple(map(entry, range(shards)))
    Manifest(
        split="train",
        sequence_length=LENGTH,
        tokenizer_sha256="0" * 64,
        corpus_sha256=None,
        documents=None,
        special_literals=None,
        **totals(entries),
        shards=entries,
    ).write(path)
    return path
