"""Seconds of a training step: in both frameworks, in PyTorch, and in another checkout.

    python benchmarks/train_step.py
    python benchmarks/train_step.py --with jax --against ../older-clone

Each side trains the same RoBERTa from random weights on the same batch with AdamW and clipping, in
a process of its own that waits while the others have their turn, so that whatever else the machine
does slows all. `tensorflow` and `jax` are the engines' own steps; JAX draws its masks in the step,
TensorFlow's are drawn beforehand. `pytorch` and `compiled` are RobertaForMaskedLM of transformers 5
with its own loss, from .venv-pytorch (tests/make_environment.sh pytorch), without and with
torch.compile. --against adds the same sides from the benchmarks/train_step.py of another checkout.
Figures are medians over the turns; ratios are of a turn's seconds to those of the first side in
that turn.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

SIDES = ("tensorflow", "jax", "pytorch", "compiled")
#: Name: layers, width, vocabulary, batch, sequence.
CASES = {
    "2x128/8k": (2, 128, 8_000, 32, 128),
    "4x256/16k": (4, 256, 16_000, 32, 128),
}
DROPOUT, RATE, DECAY, LARGEST_NORM, SHARE = 0.1, 1e-3, 0.01, 1.0, 0.15


def configuration(case: tuple) -> dict:
    """config.json of the model, without RoBERTa's defaults."""
    layers, width, vocabulary, _, sequence = case
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


def masks_and_optimizer(case: tuple) -> tuple:
    """The engines' settings of the masks and of AdamW."""
    from mlm.config.pretraining import Optimizer
    from mlm.samples.masking import MaskingPlan

    plan = MaskingPlan(SHARE, 0.8, 0.1, 4, (0, 1, 2, 3, 4), case[2], case[4])
    adamw = {"learning_rate": RATE, "weight_decay": DECAY, "max_grad_norm": LARGEST_NORM}
    return plan, Optimizer(name="adamw", **adamw).scheduled(10_000)


def beginning(case: tuple, framework: str, precision: str) -> tuple:
    """What each step needs, RandomInputs, the settings of AdamW, and the first state."""
    from mlm.model.architecture import Architecture
    from mlm.model.initialisation import initial_parameters
    from mlm.model.network import Network, ops_of
    from mlm.training.optimizers import first_moments
    from mlm.training.train_step import Computation, RandomInputs

    architecture, settings = Architecture.of(configuration(case)), masks_and_optimizer(case)[1]
    network, weights = (
        Network(architecture, ops_of(framework), precision),
        initial_parameters(architecture, 0),
    )
    state = {
        "parameters": weights,
        "moments": first_moments(np.zeros_like, weights, settings, {}),
        "step": np.int32(0),
    }
    return RandomInputs(Computation(network, "sample", 0), seed=0, replicas=1), settings, state


def in_tensorflow(case: tuple, ids: np.ndarray, precision: str, threads: int):
    """A function that makes one update and returns its loss, as the next two return one."""
    from mlm.config.accelerator import Accelerator
    from mlm.training.in_tensorflow.devices import open_strategy

    accelerator = Accelerator(kind="cpu", precision=precision, cpu_threads=threads)
    lanes = open_strategy(accelerator, len(ids)).arithmetic["lanes"]

    from mlm.foundations.tensorflow_setup import tf
    from mlm.samples.masking import mask_batch
    from mlm.training.engine import flat, nested
    from mlm.training.in_tensorflow.engine import replica_train_step

    random, settings, state = beginning(case, "tensorflow", precision)
    variables = {name: tf.Variable(value) for name, value in flat(state).items()}
    step = replica_train_step(random, settings, lanes)
    plan, _ = masks_and_optimizer(case)
    batch = mask_batch(ids, np.ones_like(ids), np.arange(len(ids)), plan, 0, 0)
    batch |= {"weights": batch["weights"] / batch["weights"].sum()} | random.arrays(0)
    batch = {name: tf.constant(value) for name, value in batch.items()}

    @tf.function(autograph=False)
    def update(batch):
        state, sums = step(nested(variables), batch)
        for name, value in flat(state).items():
            # The others are updated in place.
            if value is not variables[name]:
                variables[name].assign(value)
        return sums["loss"]

    return lambda: float(update(batch))


def in_jax(case: tuple, ids: np.ndarray, precision: str, threads: int):
    from mlm.config.accelerator import Accelerator
    from mlm.training.in_jax.devices import open_mesh, shardings

    mesh = open_mesh(Accelerator(kind="cpu", precision=precision, cpu_threads=threads)).strategy

    import jax

    from mlm.training.in_jax.engine import masked_train_step, on_mesh

    random, settings, state = beginning(case, "jax", precision)
    plan, _ = masks_and_optimizer(case)
    whole, divided = shardings(mesh)
    step = jax.jit(on_mesh(masked_train_step(random, plan, settings), mesh), donate_argnums=0)
    state = jax.jit(lambda tree: jax.tree.map(lambda x: x + 0, tree), out_shardings=whole)(state)
    batch = {
        "input_ids": ids.astype(np.int32),
        "attention_mask": np.ones_like(ids, np.int32),
        "index": np.arange(len(ids), dtype=np.uint32),
        "epoch": np.zeros(len(ids), np.uint32),
    }
    batch |= random.arrays(0)

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
    config = configuration(case)
    config.pop("model_type")
    model = RobertaForMaskedLM(RobertaConfig(**config)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    predicted = np.random.default_rng(1).random(ids.shape).argsort(axis=1) < round(SHARE * case[-1])
    inputs = {
        "input_ids": torch.tensor(np.where(predicted, 4, ids)),
        "labels": torch.tensor(np.where(predicted, ids, -100)),
        "attention_mask": torch.ones(ids.shape, dtype=torch.int64),
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


def work(side: str, name: str, precision: str, threads: int, ids: np.ndarray) -> None:
    """For each number of steps on stdin: seconds a step, of processors and by the clock."""
    common = CASES[name], ids, precision, threads
    if side == "jax":
        update = in_jax(*common)
    elif side == "tensorflow":
        update = in_tensorflow(*common)
    else:
        update = in_pytorch(*common, compiled=side == "compiled")
    print(json.dumps([update() for _ in range(3)]), flush=True)
    for line in sys.stdin:
        begun, used = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            update()
        spent = time.process_time() - used, time.perf_counter() - begun
        print(json.dumps([seconds / int(line) for seconds in spent]), flush=True)


def start(side: str, root: Path, arguments: list[str], threads: int) -> subprocess.Popen:
    """A process that computes a side's steps on request, once it has compiled them."""
    pytorch = ROOT / ".venv-pytorch" / "bin" / "python"
    if side in ("pytorch", "compiled") and not pytorch.exists():
        sys.exit(
            f"{side}: {pytorch} is missing. Make it with tests/make_environment.sh pytorch, or "
            "leave PyTorch out: --with tensorflow jax"
        )
    worker = subprocess.Popen(
        [
            pytorch if side in ("pytorch", "compiled") else sys.executable,
            *(root / "benchmarks" / "train_step.py", "--work", side, *arguments),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
    )
    losses = json.loads(worker.stdout.readline())
    vocabulary = CASES[arguments[0]][2]
    assert abs(losses[0] - np.log(vocabulary)) < 0.5, f"{side}: {losses}"
    return worker


def compare(name: str, options) -> None:
    """Print a row for each side: medians of its seconds, and of their ratios to the first's."""
    _, _, vocabulary, size, sequence = CASES[name]
    ids = np.random.default_rng(0).integers(5, vocabulary, (size, sequence))
    roots = {"": ROOT} | ({" (against)": options.against.resolve()} if options.against else {})
    with tempfile.TemporaryDirectory() as directory:
        np.save(f"{directory}/ids.npy", ids)
        arguments = [name, options.precision, str(options.threads), f"{directory}/ids.npy"]
        workers = {
            side + suffix: start(side, root, arguments, options.threads)
            for side in options.sides
            for suffix, root in roots.items()
        }
        seconds: dict[str, list] = {side: [] for side in workers}
        for _ in range(options.turns):
            for side, worker in workers.items():
                print(options.steps, file=worker.stdin, flush=True)
                seconds[side].append(json.loads(worker.stdout.readline()))
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    first = next(iter(seconds.values()))
    for side, turns in seconds.items():
        row = {"case": name, "precision": options.precision, "side": side}
        for kind, which in {"processor": 0, "clock": 1}.items():
            row[f"{kind}_ms"] = round(1e3 * statistics.median(turn[which] for turn in turns), 1)
            ratios = (turn[which] / base[which] for turn, base in zip(turns, first, strict=True))
            row[f"{kind}_ratio"] = round(statistics.median(ratios), 2)
        row["tokens_per_second"] = round(1e3 * size * sequence / row["clock_ms"])
        print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--with", nargs="+", default=list(SIDES), choices=SIDES, dest="sides")
    parser.add_argument("--against", type=Path, help="another checkout of this repository")
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5, help="steps of one turn")
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        side, name, precision, threads, ids = options.work
        work(side, name, precision, int(threads), np.load(ids))
        return
    for name in options.cases:
        compare(name, options)


if __name__ == "__main__":
    main()
