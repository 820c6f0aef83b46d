"""Seconds of a training step in both engines, and in PyTorch, on this processor.

    python benchmarks/engines.py [--cases NAME ...] [--with NAME ...] [--precision bfloat16]

Each trains the same RoBERTa from random weights on the same batch, with AdamW and clipping, in a
process of its own that waits while the others have their turn. "jax" and "tensorflow" are the
engines' own steps; JAX draws its masks in the step, TensorFlow's are drawn once, beforehand.
"pytorch" and "compiled" are RobertaForMaskedLM of transformers 5 with its own loss over all
positions, from .venv-pytorch (tests/pytorch/make_environment.sh), without and with torch.compile.
Figures are medians over the turns; ratios are of a turn's seconds to TensorFlow's in that turn.

    python benchmarks/engines.py --curves

trains the default run's first 200 steps in both engines, from the same weights, in float32, on
the shards at hand (snakemake --cores 2 results/manifests/{train,validation}.json), and leaves the
losses in docs/learning/engines.csv and docs/engines.svg. Ends with 1 where they differ by more
than 1e-4.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "scripts"), str(HERE)]

ENGINES = ("tensorflow", "jax", "pytorch", "compiled")
#: Name: layers, width, vocabulary, batch, sequence.
CASES = {
    "2x128/8k": (2, 128, 8_000, 32, 128),
    "4x256/16k": (4, 256, 16_000, 32, 128),
}
#: Steps of the curves, and how far losses may be apart.
CURVE, LARGEST_DIFFERENCE = 200, 1e-4
DROPOUT, RATE, DECAY, LARGEST_NORM, SHARE = 0.1, 1e-3, 0.01, 1.0, 0.15


def configuration(layers: int, width: int, vocabulary: int, sequence: int) -> dict:
    """config.json of the model, without what is RoBERTa's by default."""
    return {
        "model_type": "roberta",
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
        "max_position_embeddings": sequence + 2,
        "hidden_dropout_prob": DROPOUT,
        "attention_probs_dropout_prob": DROPOUT,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
    }


def in_tensorflow(case: tuple, ids: np.ndarray, precision: str, threads: int):
    """A function of nothing that makes one update and gives its loss; so are the next two."""
    from mlm.foundations.tensorflow_setup import (
        make_deterministic,
        tf,
        tf_keras,
    )  # before TensorFlow

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    make_deterministic(0)
    if precision == "bfloat16":
        tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")

    from train_step import our_step
    from transformers import RobertaConfig

    from mlm.samples.masking import mask_batch
    from mlm.training.in_tensorflow.model import build_model
    from mlm.training.in_tensorflow.optimizers import build_optimizer

    layers, width, vocabulary, _, sequence = case
    config = configuration(layers, width, vocabulary, sequence)
    model = build_model(RobertaConfig(**config), "standard", seed=0)
    optimizer = build_optimizer(settings(), model.trainable_variables)
    found = mask_batch(ids, np.ones_like(ids), np.arange(len(ids)), plan(case), 0, 0)
    return our_step(
        model, optimizer, found | {"weights": found["weights"] / found["weights"].sum()}
    )


def in_jax(case: tuple, ids: np.ndarray, precision: str, threads: int):
    from mlm.training.in_jax.devices import data_mesh, prepare_jax, shardings

    prepare_jax("cpu", threads, None)

    import jax

    from mlm.model.architecture import Architecture
    from mlm.model.weights import initial_parameters
    from mlm.training.in_jax.optimizers import first_moments, hidden_parts
    from mlm.training.in_jax.train_step import Computation, on_mesh, packed, train_step

    layers, width, vocabulary, _, sequence = case
    architecture = Architecture.of(configuration(layers, width, vocabulary, sequence))
    mesh = data_mesh("cpu", None)
    whole, divided = shardings(mesh)
    computation = Computation(architecture, "sample", False, precision, 0)
    step = jax.jit(
        on_mesh(train_step(computation, plan(case), settings(), 0), mesh), donate_argnums=0
    )
    weights = initial_parameters(architecture, jax.random.key(0))
    moments = first_moments(weights, settings(), hidden_parts(architecture))
    state = {"parameters": weights, "moments": moments, "step": np.int32(0)}
    state = jax.jit(lambda tree: jax.tree.map(lambda x: x + 0, tree), out_shardings=whole)(state)
    batch = {
        "tokens": packed(ids, np.ones_like(ids), vocabulary),
        "index": np.arange(len(ids), dtype=np.uint32),
        "epoch": np.zeros(len(ids), np.uint32),
    }

    def update():
        nonlocal state
        state, sums = step(state, jax.device_put(batch, divided))
        return float(sums["loss"])

    return update


def in_pytorch(case: tuple, ids: np.ndarray, precision: str, threads: int, compiled: bool):
    import torch
    from transformers import RobertaConfig, RobertaForMaskedLM

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    layers, width, vocabulary, size, sequence = case
    config = configuration(layers, width, vocabulary, sequence)
    config.pop("model_type")
    model = RobertaForMaskedLM(RobertaConfig(**config)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    random = np.random.default_rng(1)
    predicted = random.random(ids.shape).argsort(axis=1) < round(SHARE * sequence)
    inputs = {
        "input_ids": torch.tensor(np.where(predicted, 4, ids)),
        "labels": torch.tensor(np.where(predicted, ids, -100)),
        "attention_mask": torch.ones((size, sequence), dtype=torch.int64),
    }
    called = torch.compile(model) if compiled else model

    def update():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = called(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return update


def plan(case: tuple):
    from mlm.samples.masking import MaskingPlan

    return MaskingPlan(SHARE, 0.8, 0.1, 4, (0, 1, 2, 3, 4), case[2], case[4])


def settings():
    from mlm.config.optimizers import Optimizer
    from mlm.training.learning_rate import with_lengths

    given = Optimizer(
        name="adamw", learning_rate=RATE, weight_decay=DECAY, max_grad_norm=LARGEST_NORM
    )
    return with_lengths(given, 10_000)


def work(engine: str, name: str, precision: str, threads: int, ids: np.ndarray) -> None:
    """For each number of steps on stdin: seconds a step, of processors and by the clock."""
    build = {"tensorflow": in_tensorflow, "jax": in_jax}.get(engine)
    given = (CASES[name], ids, precision, threads)
    update = build(*given) if build else in_pytorch(*given, engine == "compiled")
    losses = [update() for _ in range(3)]
    print(json.dumps(losses), flush=True)
    for line in sys.stdin:
        steps = int(line)
        begun, used = time.perf_counter(), time.process_time()
        for _ in range(steps):
            update()
        spent = (time.process_time() - used, time.perf_counter() - begun)
        print(json.dumps([x / steps for x in spent]), flush=True)


def compare(name: str, engines: list[str], precision: str, turns: int, steps: int, threads: int):
    """Medians of each engine, and of its ratio to TensorFlow's; a row each."""
    _, _, vocabulary, size, sequence = CASES[name]
    ids = np.random.default_rng(0).integers(5, vocabulary, (size, sequence))
    workers = {}
    with tempfile.TemporaryDirectory() as directory:
        np.save(f"{directory}/ids.npy", ids)
        for engine in engines:
            own = HERE.parent / ".venv-pytorch" / "bin" / "python"
            python = sys.executable if engine in ("tensorflow", "jax") else str(own)
            if not Path(python).exists():
                sys.exit(
                    f"{engine}: no {own}; make it with tests/pytorch/make_environment.sh, or leave "
                    "PyTorch out (--with tensorflow jax)"
                )
            request = ["--work", engine, name, precision, str(threads), f"{directory}/ids.npy"]
            workers[engine] = subprocess.Popen(
                [python, __file__, *request],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": str(threads)},
            )
            # Also waits until it has compiled.
            losses = json.loads(workers[engine].stdout.readline())
            assert abs(losses[0] - np.log(vocabulary)) < 0.5, f"{engine}: {losses}"
        found = {engine: [] for engine in engines}
        for _ in range(turns):
            for engine, worker in workers.items():
                print(steps, file=worker.stdin, flush=True)
                found[engine].append(json.loads(worker.stdout.readline()))
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    for engine, seconds in found.items():
        row = {"case": name, "precision": precision, "threads": threads, "engine": engine}
        row["tokens_per_second"] = round(
            size * sequence / statistics.median(clock for _, clock in seconds)
        )
        for place, kind in enumerate(("processor", "clock")):
            own = [turn[place] for turn in seconds]
            row[f"{kind}_milliseconds"] = round(1e3 * statistics.median(own), 1)
            if "tensorflow" in found:
                base = [turn[place] for turn in found["tensorflow"]]
                ratio = statistics.median(a / b for a, b in zip(own, base, strict=True))
                row[f"{kind}_ratio"] = round(ratio, 2)
        print(json.dumps(row), flush=True)


def curves() -> None:
    """Losses of both engines, step by step, as a table and a figure."""
    from learning import BASE, RECORDS, run_here

    from mlm.training.engine import engine_of, open_devices
    from mlm.training.run import read_checked_manifests, run_of

    # Each engine draws classes of its own.
    settings = ["accelerator.precision=float32", "pretraining.softmax_classes=null"]
    config, files = run_here(settings, seed=0)
    manifests = read_checked_manifests(files, config.sequence_length)
    batch = config.pretraining.per_replica_batch_size
    losses, weights = {}, None
    # TensorFlow first: it is told of its devices before anything else.
    for name in ("tensorflow", "jax"):
        devices = open_devices(name, config.accelerator, batch)
        engine = engine_of(run_of(config, files, manifests, devices.replicas), devices)
        if weights is None:
            engine.start_from_counts()
            weights = engine.exported().weights
        else:
            engine.begin_with(weights)
        losses[name] = [engine.advance(1)["loss"] for _ in range(CURVE)]
    differences = [abs(a - b) for a, b in zip(*losses.values(), strict=True)]
    with (RECORDS / "engines.csv").open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("step", *losses))
        writer.writerows(
            (i + 1, *(f"{x:.9g}" for x in pair))
            for i, pair in enumerate(zip(*losses.values(), strict=True))
        )

    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "engines", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(8.5, 4.5), sharex=True, height_ratios=(2, 1)
    )
    steps = range(1, CURVE + 1)
    above.plot(steps, losses["tensorflow"], "C0-", lw=4, alpha=0.4, label="TensorFlow")
    above.plot(steps, losses["jax"], "C1-", lw=1, label="JAX")
    above.set_ylabel("training loss (nats)")
    above.legend()
    below.semilogy(steps, np.maximum(differences, 1e-9), "k.", ms=3)
    below.axhline(LARGEST_DIFFERENCE, color="grey", lw=0.8, ls=":")
    below.set_ylabel("difference")
    below.set_xlabel("step")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(BASE / "docs" / "engines.svg", metadata={"Date": None})
    print(f"the largest difference of {CURVE} losses: {max(differences):.1e}")
    sys.exit(int(max(differences) > LARGEST_DIFFERENCE))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    arguments.add_argument("--with", nargs="+", default=list(ENGINES), choices=ENGINES, dest="who")
    arguments.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--turns", type=int, default=7)
    arguments.add_argument("--steps", type=int, default=5, help="steps of one turn")
    arguments.add_argument("--curves", action="store_true", help="losses instead of seconds")
    arguments.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.curves:
        curves()
    if given.work:
        engine, name, precision, threads, ids = given.work
        work(engine, name, precision, int(threads), np.load(ids))
        return
    for name in given.cases:
        compare(name, given.who, given.precision, given.turns, given.steps, given.threads)


if __name__ == "__main__":
    main()
