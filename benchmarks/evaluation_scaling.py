"""Seconds, memory and figures of the evaluation of a large test split.

    python benchmarks/evaluation_scaling.py [--tokens 100_000_000] [--whole 6_000_000]

Run it where the default run has been made. Its test split is replaced by synthetic ones: samples
whose halves are those of any two samples of the real split. The larger is evaluated as the
configuration says, on at most evaluation.max_tokens tokens; the smaller on all of its tokens and on
a spread part of them (a third), whose figures have to agree within the interval of the part. Each
evaluation is a process of its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import numpy as np

from mlm.config.evaluation import Evaluation
from mlm.config.resolution import resolve
from mlm.evaluation.model_evaluation import evaluate
from mlm.foundations.digests import file_sha256
from mlm.samples.manifests import Manifest, ShardEntry, totals
from mlm.samples.split_samples import spread_samples
from mlm.samples.tfrecord import SampleWriter

MANIFESTS = {s: Path(f"results/manifests/{s}.json") for s in ("train", "validation", "test")}


def synthetic(directory: Path, tokens: int) -> Path:
    """The manifest of a test split of `tokens` tokens, with its shard beside it."""
    real = Manifest.read(MANIFESTS["test"])
    samples = spread_samples(real)
    whole = samples[samples.attention_mask.all(axis=1)].input_ids
    random, half = np.random.default_rng(0), real.sequence_length // 2
    path, left = directory / f"test-{tokens}.tfrecord", tokens // real.sequence_length
    with SampleWriter(path) as writer:
        while left:
            first, second = random.integers(len(whole), size=(2, min(left, 100_000)))
            ids = np.concatenate([whole[first, :half], whole[second, half:]], axis=1)
            writer.write(ids, np.full(len(ids), real.sequence_length))
            left -= len(ids)
    shard = ShardEntry(
        name=path.name,
        path=str(path),
        num_samples=writer.num_samples,
        num_tokens=writer.num_tokens,
        num_padding=0,
        num_bytes=writer.num_bytes,
        sha256=file_sha256(path),
        block_offsets=writer.block_offsets,
    )
    described = replace(real, shards=(shard,), **totals((shard,)), group_by=None, documents=None)
    described.write(path.with_suffix(".json"))
    return path.with_suffix(".json")


def measure(manifest: Path, max_tokens: int | None) -> dict:
    """One evaluation in this process: losses where hidden, seconds and peak memory."""
    config = resolve({})
    given = config["evaluation"] | ({"max_tokens": max_tokens} if max_tokens else {})
    section = Evaluation.of_param(given)
    begun = time.monotonic()
    model, manifests = Path("results/runs/base/model"), MANIFESTS | {"test": manifest}
    found = evaluate("base", model, manifests, {}, section, config["accelerator"])
    return {
        "tokens": Manifest.read(manifest).num_tokens,
        "evaluated_at_most": section.max_tokens,
        "loss": round(found.test.hidden.loss, 4),
        "interval": [round(end, 4) for end in found.test.hidden.loss_interval],
        "baselines": {name: round(b.hidden.loss, 4) for name, b in sorted(found.baselines.items())},
        "seconds": round(time.monotonic() - begun),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def in_process(manifest: Path, max_tokens: int | None) -> dict:
    command = [sys.executable, __file__, "--measure", str(manifest)]
    command += ["--max-tokens", str(max_tokens)] if max_tokens else []
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(made.stdout.splitlines()[-1])
    print(json.dumps(found), flush=True)
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tokens", type=int, default=100_000_000)
    arguments.add_argument("--whole", type=int, default=6_000_000)
    arguments.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments.add_argument("--max-tokens", type=int, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.max_tokens)))
        return
    with tempfile.TemporaryDirectory() as directory:
        in_process(synthetic(Path(directory), given.tokens), None)
        smaller = synthetic(Path(directory), given.whole)
        whole = in_process(smaller, given.whole)
        part = in_process(smaller, given.whole // 3)
    low, high = part["interval"]
    print(
        json.dumps({"the_whole_is_within_the_interval_of_the_part": low <= whole["loss"] <= high})
    )


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
