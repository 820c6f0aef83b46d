"""Tokens per second of this project's train step against the plain Hugging Face loss.

    python benchmarks/train_step.py

Both train the same model on the same batch with the same optimizer, in one process, in
turns, so that whatever else the machine does slows both. The plain step asks the model for
its own loss over all positions, as the usual examples do; ours runs with deterministic
kernels, as in training, the plain one without. The ratio is the median over the turns of
(plain seconds / our seconds); above 1 ours is faster. The ratio of the processor seconds
beside it says how much of that is work saved, whatever else runs on the machine.

    python benchmarks/train_step.py --optimizers

compares, in the same way, the processor seconds of a step with Muon and with AdamW, at the sizes of
config.yaml and in either precision.

    python benchmarks/train_step.py --lanes

compares a step at these sizes in bfloat16, on two threads that both compute one operation after
the other, and with half of the batch on each, in processes that take turns.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import numpy as np

from mlm.config.optimizers import Optimizer
from mlm.foundations.tensorflow_setup import (
    make_deterministic,
    tf,
    tf_keras,
)  # before TensorFlow itself
from mlm.samples.masking import MaskingPlan, mask_batch
from mlm.training.in_tensorflow.model import build_model
from mlm.training.in_tensorflow.optimizers import build_optimizer
from mlm.training.in_tensorflow.train_step import distributed_train_step, replica_train_step
from mlm.training.learning_rate import with_lengths

#: Name: layers, width, vocabulary, batch, sequence, and the ratio that is asked for.
CASES = {
    "2x128/8k": (2, 128, 8_000, 32, 128, 2.0),
    "4x256/16k": (4, 256, 16_000, 32, 128, 1.7),
}
OPTIMIZER = with_lengths(Optimizer(learning_rate=1e-3, weight_decay=0.01), 10_000)


def model_and_optimizer(
    layers: int, width: int, vocabulary: int, sequence: int, settings=OPTIMIZER
):
    """A RoBERTa from scratch, and the optimizer of its weights."""
    from transformers import RobertaConfig

    config = RobertaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        max_position_embeddings=sequence + 2,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    model = build_model(config, "standard", seed=0)
    return model, build_optimizer(settings, model.trainable_variables)


def masked_batch(vocabulary: int, batch: int, sequence: int, probability=0.15) -> dict:
    """Random tokens, masked as in training, weights divided by the number of predictions."""
    ids = np.random.default_rng(0).integers(5, vocabulary, (batch, sequence))
    plan = MaskingPlan(probability, 0.8, 0.1, 4, (0, 1, 2, 3, 4), vocabulary, sequence)
    found = mask_batch(ids, np.ones_like(ids), np.arange(batch), plan, 0, 0)
    return found | {"weights": found["weights"] / found["weights"].sum()}


def our_step(model, optimizer, batch: dict, lanes: int = 1, classes: int | None = None):
    """A function of nothing that makes one update and waits for it."""
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    replica_step = replica_train_step(model, optimizer, OPTIMIZER, lanes, classes)
    step = distributed_train_step(strategy, replica_step)
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    one = tf.constant(1)
    return lambda: float(step(batches, one)["loss"])


def plain_step(model, optimizer, batch: dict, sequence: int):
    """The same with the loss that the model itself gives for labels over all positions."""
    labels = tf.fill([len(batch["input_ids"]), sequence], -100)
    rows = tf.where(batch["weights"] > 0)
    places = tf.stack(
        [tf.cast(rows[:, 0], tf.int32), tf.gather_nd(batch["positions"], rows)], axis=1
    )
    labels = tf.tensor_scatter_nd_update(labels, places, tf.gather_nd(batch["labels"], rows))
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(inputs | {"labels": labels}, training=True).loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, OPTIMIZER.max_grad_norm)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return lambda: float(step())


def seconds(step, steps: int, deterministic: bool) -> tuple[float, float]:
    """Mean seconds of `steps` calls, by the clock and of all processors."""
    # Not above, where it would be imported before `framework` has prepared TensorFlow.
    from tensorflow.python.framework import config as kernels

    # The kernels look at this flag when they run; TensorFlow has no public way to lower it.
    (kernels.enable_op_determinism if deterministic else kernels.disable_op_determinism)()
    begun, used = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    return (time.perf_counter() - begun) / steps, (time.process_time() - used) / steps


def compare(name: str, turns: int, steps: int) -> dict:
    """Both steps of one case in turns; medians and the ratio."""
    layers, width, vocabulary, size, sequence, asked = CASES[name]
    batch = masked_batch(vocabulary, size, sequence)
    ours = our_step(*model_and_optimizer(layers, width, vocabulary, sequence), batch)
    plain = plain_step(*model_and_optimizer(layers, width, vocabulary, sequence), batch, sequence)
    first = ours(), plain()
    assert abs(first[0] - first[1]) < 0.05, f"the two do not compute the same loss: {first}"
    ours(), plain()
    pairs = [(seconds(ours, steps, True), seconds(plain, steps, False)) for _ in range(turns)]
    tokens = size * sequence
    clock = [(o[0], p[0]) for o, p in pairs]
    return {
        "case": name,
        "batch": [size, sequence],
        "our_tokens_per_second": round(tokens / statistics.median(o for o, _ in clock)),
        "plain_tokens_per_second": round(tokens / statistics.median(p for _, p in clock)),
        "ratio": round(statistics.median(p / o for o, p in clock), 2),
        "ratio_of_processor_seconds": round(statistics.median(p[1] / o[1] for o, p in pairs), 2),
        "ratio_asked_for": asked,
    }


def default_step(optimizer: str, precision: str, lanes: int = 1):
    """A function that makes one update at the sizes of config.yaml; it has made one."""
    tf_keras.mixed_precision.set_global_policy(precision)
    layers, width, vocabulary, size, sequence = 2, 128, 8_000, 64, 64
    batch = masked_batch(vocabulary, size, sequence, probability=0.3)
    settings = OPTIMIZER.model_copy(update={"name": optimizer})
    made = model_and_optimizer(layers, width, vocabulary, sequence, settings)
    step = our_step(*made, batch, lanes, classes=1_500)
    step()
    return step


def compare_optimizers(precision: str, turns: int, steps: int) -> dict:
    """Processor seconds of a step with Muon over those with AdamW; medians of the turns."""
    calls = {name: default_step(name, precision) for name in ("adamw", "muon")}
    pairs = [[seconds(c, steps, True)[1] for c in calls.values()] for _ in range(turns)]
    return {
        "case": "optimizers",
        "precision": precision,
        "milliseconds_with_adamw": round(1e3 * statistics.median(a for a, _ in pairs), 1),
        "milliseconds_with_muon": round(1e3 * statistics.median(m for _, m in pairs), 1),
        "ratio": round(statistics.median(m / a for a, m in pairs), 3),
    }


def compare_lanes(turns: int, steps: int) -> dict:
    """Seconds of a step in two halves over those of one undivided; medians of the turns.

    In processes of their own, since threads are set once in each.
    """

    def measured(lanes: int) -> float:
        call = [sys.executable, __file__, "--steps", str(steps), "--in-lanes", str(lanes)]
        return float(subprocess.run(call, check=True, capture_output=True, text=True).stdout)

    pairs = [(measured(1), measured(2)) for _ in range(turns)]
    return {
        "case": "lanes",
        "milliseconds_undivided": round(1e3 * statistics.median(a for a, _ in pairs), 1),
        "milliseconds_in_halves": round(1e3 * statistics.median(b for _, b in pairs), 1),
        "ratio": round(statistics.median(b / a for a, b in pairs), 3),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--turns", type=int, default=7)
    arguments.add_argument("--steps", type=int, default=5, help="steps of one turn")
    arguments.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    arguments.add_argument("--optimizers", action="store_true", help="Muon beside AdamW")
    arguments.add_argument("--lanes", action="store_true", help="halves beside the whole batch")
    arguments.add_argument("--in-lanes", type=int, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.lanes:
        print(json.dumps(compare_lanes(given.turns, given.steps)))
        return
    tf.config.threading.set_intra_op_parallelism_threads(2 // (given.in_lanes or 1))
    tf.config.threading.set_inter_op_parallelism_threads(2)
    make_deterministic(0)
    if given.in_lanes:
        print(seconds(default_step("muon", "mixed_bfloat16", given.in_lanes), given.steps, True)[0])
        return
    if given.optimizers:
        for precision in ("float32", "mixed_bfloat16"):
            found = compare_optimizers(precision, given.turns, given.steps)
            print(json.dumps(found), flush=True)
        return
    for name in given.cases:
        print(json.dumps(compare(name, given.turns, given.steps)), flush=True)


if __name__ == "__main__":
    main()
