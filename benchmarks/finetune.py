"""One fine-tuning step jitted over a mesh, beside the same step under pmap.

    python benchmarks/finetune.py [--model DIRECTORY] [--steps 20] [--devices 2]

`--model` is an exported model (its config.json is read); without one a small RoBERTa is made
up. Times are of steps after compiling, one process each and in turn, as processor time and as
wall time; losses must agree. Virtual devices share the cores of
the CPU; `--devices 0` takes the accelerators that there are.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

SMALL = {
    "model_type": "roberta",
    "vocab_size": 8000,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "max_position_embeddings": 130,
    "pad_token_id": 1,
}


def measured(way: str, model: str | None, steps: int, devices: int, batch: int) -> dict:
    """Seconds a step and the last loss of `way` ("jit" or "pmap"), in this process."""
    from mlm.training.in_jax.framework import data_mesh, prepare

    prepare("auto", 1, devices or None)
    import jax
    import jax.numpy as jnp
    import numpy as np

    from mlm.finetuning.finetuning_step import (
        AdamW,
        Schedule,
        abstract_batch,
        compiled,
        first_state,
        losses,
        optimizer_of,
        predict_step,
        train_step,
    )
    from mlm.finetuning.sequence_model import read_sequence_model, sequence_model

    mesh = data_mesh("auto", devices or None)
    devices = mesh.devices.size
    network = read_sequence_model(model, 1, 0.0) if model else sequence_model(SMALL, 1, 0.0)
    optimizer = optimizer_of(AdamW(0.9, 0.98, 1e-8, 0.01, None), Schedule(1e-4, 1, steps + 3, 0.0))
    length = network.length(128)
    rng = np.random.default_rng(0)
    rows = batch * devices
    data = {
        "input_ids": rng.integers(5, network.architecture.vocabulary, (rows, length), np.int32),
        "attention_mask": np.ones((rows, length), np.int32),
        "targets": rng.normal(size=rows).astype(np.float32),
        "weights": np.ones(rows, np.float32),
    }
    state = first_state(network.random_parameters(0), optimizer, 0)
    began = time.perf_counter()
    if way == "jit":
        step, _ = compiled(
            mesh,
            train_step(network, optimizer),
            predict_step(network),
            state,
            abstract_batch(rows, length),
        )
    else:
        state = jax.tree.map(lambda leaf: jnp.stack([leaf] * devices), state)
        data = {k: v.reshape(devices, batch, *v.shape[1:]) for k, v in data.items()}
        step = jax.pmap(_pmapped(network, optimizer, losses), axis_name="data")
    state, loss = step(state, data)
    jax.block_until_ready((state, loss))
    first = time.perf_counter() - began
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(steps):
        state, loss = step(state, data)
        jax.block_until_ready(loss)
    return {
        "way": way,
        "first_step_seconds": round(first, 3),
        "step_seconds": (time.perf_counter() - wall) / steps,
        "step_processor_seconds": (time.process_time() - processor) / steps,
        "loss": float(np.ravel(loss)[0]),
    }


def _pmapped(model, optimizer, losses):
    import jax
    import jax.numpy as jnp
    import optax

    def step(state, batch):
        def mean_loss(parameters):
            logits = model.logits(parameters, batch["input_ids"], batch["attention_mask"])
            weights = batch["weights"]
            total = jnp.sum(losses(logits, batch["targets"]) * weights)
            # Every replica has its part of the sum and the whole count.
            return total / jax.lax.psum(jnp.sum(weights), "data")

        loss, gradients = jax.value_and_grad(mean_loss)(state["params"])
        gradients, loss = jax.lax.psum((gradients, loss), "data")
        updates, opt_state = optimizer.update(gradients, state["opt_state"], state["params"])
        parameters = optax.apply_updates(state["params"], updates)
        return state | {"params": parameters, "opt_state": opt_state}, loss

    return step


def main() -> None:
    """Measure both in turn, three times, and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default=None)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--devices", type=int, default=2, help="virtual; 0: those there are")
    parser.add_argument("--batch", type=int, default=16, help="passages on one device")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=("jit", "pmap"), default=None, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.way:
        found = measured(asked.way, asked.model, asked.steps, asked.devices, asked.batch)
        print(json.dumps(found))
        return
    found = {"jit": [], "pmap": []}
    for _ in range(asked.rounds):
        for way, results in found.items():
            ran = subprocess.run(
                [sys.executable, __file__, *sys.argv[1:], "--way", way],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            results.append(json.loads(ran.stdout.strip().splitlines()[-1]))
    for way, results in found.items():
        best = min(results, key=lambda r: r["step_processor_seconds"])
        print(
            f"{way:5} {1000 * best['step_seconds']:8.1f} ms a step, "
            f"{1000 * best['step_processor_seconds']:8.1f} ms of processor time, "
            f"first step {best['first_step_seconds']:.1f} s, loss {best['loss']:.6f}"
        )
    one, other = (min(r["step_processor_seconds"] for r in found[way]) for way in ("jit", "pmap"))
    print(f"jit over the mesh takes {one / other:.2f} of pmap's processor time")


if __name__ == "__main__":
    main()
