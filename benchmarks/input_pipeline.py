"""Samples per second, and the wait for the first batch, of the input pipeline.

    python benchmarks/input_pipeline.py

Ours shuffles serialized records and parses whole batches; the usual order parses each record,
shuffles the parsed tensors in a window of 2^18, then makes batches. Both read the same shards,
in one process, in turns. Masks are left out of the comparison, and the rate of the whole
pipeline with them stands beside it.

    python benchmarks/input_pipeline.py --resume

is the wait for the first batch at the start of an epoch of ten million samples and just before its
end, in turns. The ten shards are one file.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import numpy as np

from mlm.foundations.tensorflow_setup import tf
from mlm.samples.input_pipeline import read_batches, training_batches
from mlm.samples.masking import MaskingPlan
from mlm.samples.split_samples import ShardBlocks, ShardFiles
from mlm.samples.stored_batches import BatchOrder
from mlm.samples.tfrecord import SampleWriter

SEQUENCE, BATCH, WINDOW, VOCABULARY = 128, 128, 2**17, 8_000


def write_shards(directory: Path, samples: int, shards: int) -> ShardFiles:
    """Random samples in `shards` files below `directory`."""
    random, blocks, share = np.random.default_rng(0), [], samples // shards
    for i in range(shards):
        path = directory / f"train-{i:05d}-of-{shards:05d}.tfrecord"
        with SampleWriter(path) as writer:
            ids = random.integers(5, VOCABULARY, (share, SEQUENCE))
            writer.write(ids, np.full(share, SEQUENCE))
        blocks.append(ShardBlocks(path, path.name, share, writer.block_offsets))
    return ShardFiles(tuple(blocks), SEQUENCE)


def plain(shards: ShardFiles) -> tf.data.Dataset:
    """Parse, then shuffle, then batch."""
    feature = tf.io.FixedLenFeature((SEQUENCE,), tf.int64)

    def parse(record):
        return tf.io.parse_single_example(record, {"input_ids": feature, "attention_mask": feature})

    files = [str(shard.path) for shard in shards.blocks]
    records = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE)
    parsed = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    batches = parsed.shuffle(WINDOW, seed=1).batch(BATCH, drop_remainder=True)
    return batches.prefetch(tf.data.AUTOTUNE)


def order_of(shards: ShardFiles) -> BatchOrder:
    """An epoch from its beginning."""
    steps = shards.num_samples // BATCH
    return BatchOrder(1, BATCH, WINDOW, start_step=0, steps=steps)


def ours(shards: ShardFiles) -> tf.data.Dataset:
    """The training order of an epoch, without masks."""
    return read_batches(shards, order_of(shards))


def masked(shards: ShardFiles) -> tf.data.Dataset:
    """The same with masks."""
    return training_batches(
        shards,
        MaskingPlan(0.15, 0.8, 0.1, 4, (0, 1, 2, 3, 4), VOCABULARY, SEQUENCE),
        order_of(shards),
    )


def measure(batches: tf.data.Dataset) -> tuple[float, float]:
    """Seconds to the first batch, and samples per second from the start to the end."""
    begun = time.perf_counter()
    iterator = iter(batches)
    next(iterator)
    first = time.perf_counter()
    count = 1 + sum(1 for _ in iterator)
    return first - begun, count * BATCH / (time.perf_counter() - begun)


def resumed(turns: int, samples: int = 10**7, sequence: int = 8) -> dict:
    """Seconds to the first batch at the start and at the end of an epoch, medians of the turns."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "train.tfrecord"
        with SampleWriter(path) as writer:
            for _ in range(100):
                ids = random.integers(5, VOCABULARY, (samples // 1000, sequence))
                writer.write(ids, np.full(len(ids), sequence))
        shard = ShardBlocks(path, path.name, samples // 10, writer.block_offsets)
        shards, steps = ShardFiles((shard,) * 10, sequence), samples // BATCH
        waits: dict[int, list[float]] = {0: [], steps - 10: []}
        for _ in range(turns):
            for start, found in waits.items():
                begun = time.perf_counter()
                order = BatchOrder(1, BATCH, WINDOW, start_step=start, steps=steps)
                next(iter(read_batches(shards, order)))
                found.append(time.perf_counter() - begun)
    fresh, late = map(statistics.median, waits.values())
    return {
        "samples": samples,
        "first_batch_seconds_at_the_start": round(fresh, 2),
        "first_batch_seconds_at_the_end": round(late, 2),
        "longer_asked_for": 2.0,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--samples", type=int, default=2**17)
    arguments.add_argument("--resume", action="store_true", help="the wait late in an epoch")
    given = arguments.parse_args()
    if given.resume:
        print(json.dumps(resumed(given.turns), indent=2))
        return
    with tempfile.TemporaryDirectory() as directory:
        shards = write_shards(Path(directory), given.samples, shards=4)
        pairs = [(measure(ours(shards)), measure(plain(shards))) for _ in range(given.turns)]
        with_masks = measure(masked(shards))
    medians = [
        [statistics.median(turn[side][k] for turn in pairs) for k in (0, 1)] for side in (0, 1)
    ]
    first = statistics.median(p[0] / o[0] for o, p in pairs)
    rate = statistics.median(o[1] / p[1] for o, p in pairs)
    report = {
        "our_first_batch_seconds": round(medians[0][0], 3),
        "plain_first_batch_seconds": round(medians[1][0], 3),
        "our_samples_per_second": round(medians[0][1]),
        "plain_samples_per_second": round(medians[1][1]),
        "our_samples_per_second_with_masks": round(with_masks[1]),
        "first_batch_sooner": round(first, 2),
        "first_batch_asked_for": 6.0,
        "rate_ratio": round(rate, 2),
        "rate_asked_for": 4.0,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
