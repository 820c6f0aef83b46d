"""A whole pretraining small enough for tests: shards, tokenizer files and settings."""

import csv
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from unittest import mock

import numpy as np
from tokenizers import AddedToken, Tokenizer, models

from mlm.config.overlays import resolve
from mlm.foundations.atomic import write_json
from mlm.foundations.digests import file_sha256
from mlm.samples.manifests import Manifest
from mlm.samples.tfrecord import SampleWriter

VOCABULARY, LENGTH = 500, 16
SPECIAL = {"cls": "[CLS]", "pad": "<pad>", "sep": "[SEP]", "unk": "<unk>", "mask": "[MASK]"}


def small_samples(count: int) -> np.ndarray:
    """Samples [count, LENGTH] that a model can learn: each token follows from the one before.

    The first two ordinary tokens of a sample name it: 5 + index // 100 and 5 + index % 100.
    """
    index = np.arange(count)
    ids = np.empty((count, LENGTH), np.int64)
    ids[:, 0], ids[:, 1], ids[:, 2] = 0, 5 + index // 100, 5 + index % 100
    ids[:, 3] = 5 + index % (VOCABULARY - 5)
    for place in range(4, LENGTH):
        ids[:, place] = 5 + (ids[:, place - 1] * 3 + 7) % (VOCABULARY - 5)
    ids[:, -1] = 2
    return ids


def write_tokenizer(directory: Path) -> Path:
    """A word-level tokenizer with 500 ids, as the tokenizer stage lays it out; its file."""
    words = [*SPECIAL.values(), *(f"w{i}" for i in range(5, VOCABULARY))]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in SPECIAL.values()])
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    texts = {f"{name}_token": text for name, text in SPECIAL.items()}
    write_json(directory / "special_tokens_map.json", texts)
    write_json(directory / "tokenizer_config.json", texts)
    return directory / "tokenizer.json"


def write_split(
    directory: Path,
    split: str,
    counts: tuple[int, ...],
    *,
    tokenizer_sha256: str = "0" * 64,
    samples: np.ndarray | None = None,
) -> Manifest:
    """Shards with `counts` samples each, of `samples` or small ones; their manifest, with absolute
    paths."""
    if samples is None:
        samples = small_samples(sum(counts))
    shards, first = [], 0
    directory.mkdir(parents=True, exist_ok=True)
    for i, count in enumerate(counts):
        path = directory / f"{split}-{i:05d}-of-{len(counts):05d}.tfrecord"
        with SampleWriter(path) as writer:
            writer.write(samples[first : first + count], np.full(count, LENGTH))
        first += count
        shards.append(writer.shard(path))
    return Manifest.of(
        shards,
        split=split,
        sequence_length=LENGTH,
        tokenizer_sha256=tokenizer_sha256,
        corpus_sha256="0" * 64,
        documents=0,
        special_literals=0,
    )


def small_settings(overrides: dict | None = None) -> dict:
    """A resolved configuration: one layer of width 32, dropout on, 40 steps of 8 samples of AdamW.

    The default optimizer and embeddings are asked for by the tests that are about them.
    """
    small = {
        "shards": {"sequence_length": LENGTH},
        "model": {
            "config": {
                "hidden_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "intermediate_size": 64,
                "hidden_dropout_prob": 0.1,
                "attention_probs_dropout_prob": 0.1,
            },
            "initialisation": {"embeddings": "random"},
        },
        "pretraining": {
            "per_replica_batch_size": 8,
            "steps": 40,
            "log_every": 5,
            "shuffle_window": 100,
            "validation": {"every": 20, "samples": 50},
            "checkpoint": {"every": 5},
            # Fewer than the vocabulary, so that every step draws.
            "softmax_classes": 100,
            "optimizer": {"name": "adamw", "learning_rate": 6e-3},
        },
        "accelerator": {"cpu_threads": 1, "precision": "float32"},
    }
    return resolve(_merged(small, overrides or {}))


def _merged(base, override):
    if not (isinstance(base, dict) and isinstance(override, dict)):
        return override
    return base | {k: _merged(base[k], v) if k in base else v for k, v in override.items()}


def write_inputs(root: Path) -> None:
    """Tokenizer, shards and manifests of a small run below `root`."""
    tokenizer = write_tokenizer(root / "tokenizer")
    for split, counts in {"train": (83, 40, 77), "validation": (60,)}.items():
        manifest = write_split(
            root / "shards", split, counts, tokenizer_sha256=file_sha256(tokenizer)
        )
        manifest.write(root / f"{split}.json")


def small_job(
    root: Path, name: str = "small", overrides: dict | None = None, parent: tuple | None = None
):
    """(RunConfiguration, RunFiles) of a run below `root`, where `write_inputs` wrote.

    `parent` are name and overrides of the run that this one continues.
    """
    from mlm.config.configuration import trainings
    from mlm.training.resolved_run import RunFiles

    overrides = _merged(
        {"pretraining": {"checkpoint": {"directory": str(root / "state")}}}, overrides or {}
    )
    continued = small_job(root, *parent)[0] if parent else None
    training = trainings(small_settings(overrides))["base"]
    training = training.with_values(name=name, operation={"parent": continued})
    files = RunFiles(
        tokenizer=str(root / "tokenizer" / "tokenizer.json"),
        manifests={s: str(root / f"{s}.json") for s in ("train", "validation")},
    )
    return training, files


def small_run(root: Path, overrides: dict | None = None, replicas: int = 1, **how):
    """(Run, RunFiles) of a run below `root`, resolved; `how` is for `run_of`."""
    from mlm.training.resolved_run import read_manifests, run_of

    config, files = small_job(root, overrides=overrides)
    manifests = read_manifests(files, config.sequence_length)
    return run_of(config, files, manifests, replicas, **how), files


def kill_after(step: int, seconds: float | None) -> None:
    """Have this process killed after `step` updates, or so many `seconds` later."""
    from mlm.training import loop

    real, loop._AT_ONCE = loop.Clock.advanced, 0.0

    def advanced(clock, made: int) -> None:
        real(clock, made)
        if made == step and seconds is None:
            os.kill(os.getpid(), signal.SIGKILL)
        elif made == step:
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()

    loop.Clock.advanced = advanced


def stop_behind_save() -> None:
    """Have this process sent SIGTERM as soon as it has saved a state."""
    from mlm.training import loop, saved_states

    real, loop._AT_ONCE = saved_states.StateDirectory.save, 0.0

    def save(*arguments) -> None:
        real(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)

    saved_states.StateDirectory.save = save


def train_in_child(root: str, name: str, overrides: dict, fault: dict) -> None:
    """Train in this process, which is a child of its own; the exit status is 3 where an MlmError
    was raised, whose text is in {name}.stderr.

    A `fault` kills it at the `write`-th write of a state, after `step`, or `seconds` after the
    first, or stops it behind a save; its `environment` is set before.
    """
    with open(f"{root}/{name}.stderr", "a") as log:
        os.dup2(log.fileno(), 2)
    from mlm.foundations.errors import MlmError
    from mlm.training import saved_states
    from mlm.training.pretrain import prepare, pretrain

    os.environ.update(fault.get("environment", {}))
    if "write" in fault:
        count, real = iter(range(1000)), saved_states.write_bytes

        def write(path, *parts):
            if next(count) == fault["write"]:
                content = b"".join(parts)
                real(path, content[: len(content) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            real(path, *parts)

        saved_states.write_bytes = write
    if fault.keys() & {"seconds", "step"}:
        kill_after(fault.get("step", 1), fault.get("seconds"))
    if "stop" in fault:
        stop_behind_save()
    parent = overrides.pop("parent", None)
    try:
        training = prepare(*small_job(Path(root), name, overrides, parent))
        pretrain(training, f"{root}/runs/{name}")
    except MlmError as error:
        print(f"MlmError: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(3)


_CONTEXT = multiprocessing.get_context("forkserver")
#: Imports take longer than a training: they are done once and forked. No TensorFlow operation has
#: run by then.
_IMPORTED = (
    *("mlm.training.pretrain", "mlm.training.in_tensorflow.engine", "small_run"),
    "transformers.models.auto.configuration_auto",
)


def in_child(function, *arguments) -> int | None:
    """Call it in a new process; the exit status of this (negative: a signal)."""
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "scripts")]
    _CONTEXT.set_forkserver_preload(list(_IMPORTED))
    child = _CONTEXT.Process(target=function, args=arguments)
    with mock.patch.dict(os.environ, {"PYTHONPATH": os.pathsep.join(paths)}):
        child.start()
    child.join()
    return child.exitcode


def run_child(root: Path, name: str, overrides: dict | None = None, fault: dict | None = None):
    """Train in a new process to its end, good or bad; its exit status."""
    return in_child(train_in_child, str(root), name, overrides or {}, fault or {})


def told(root: Path, name: str) -> str:
    return (root / f"{name}.stderr").read_text()


#: The columns that tell of the clock.
CLOCK = ("tokens_per_second",)


def result(root, name: str) -> tuple[str, list[dict]]:
    """The model's digest, and training.csv without the clock."""
    with open(root / "runs" / name / "training.csv") as file:
        rows = [{k: v for k, v in row.items() if k not in CLOCK} for row in csv.DictReader(file)]
    return file_sha256(root / "runs" / name / "model" / "model.safetensors"), rows
