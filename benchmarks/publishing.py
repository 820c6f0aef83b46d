"""What pushing checkpoints in the background costs the training step.

    python benchmarks/publishing.py

One process trains the model of config.yaml (2 layers of 128, vocabulary 8,000) while checkpoints
of it are pushed to a Hub on this machine that reads slowly. During a push, windows of a few steps
alternate: the pushing process runs, then it is stopped (SIGSTOP), and so on until the Hub has
everything. Neighbouring windows are compared, so that what else the machine does hits both. The
first window of a push holds the taking and writing of the checkpoint as well.

`cost_beside_a_push` is the median over all pairs of (seconds running / seconds stopped) - 1, with
its 95 % bootstrap interval; `processor_cost` the same with processor seconds, those of the pushing
process included, which other work on the machine hardly moves. On a busy machine the clock says
little: where its interval holds both 0 and the limit, the processor seconds decide.
`seconds_standing_still` is what the training waits for a checkpoint to be taken.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import psutil
from train_step import masked_batch, model_and_optimizer, our_step  # the path of mlm too

from mlm.config.publish import Publish
from mlm.foundations.tensorflow_setup import make_deterministic, tf
from mlm.model.export import ExportedModel
from mlm.publishing.background import BackgroundPushes
from mlm.training.in_tensorflow.model import pytorch_weights

ROOT = Path(__file__).parents[1]

LIMIT = 0.02
TOKEN = "hf_benchmark"


def slow_hub(rate: float) -> tuple[subprocess.Popen, str]:
    """A Hub that takes `rate` bytes a second, in a process of its own; its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.publishing.hub_server", "--rate", str(rate)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Elsewhere in earnest: it shall not compete with the training.
        preexec_fn=lambda: os.nice(19),
    )
    return process, process.stdout.readline().strip()


class Window(NamedTuple):
    """A few steps: seconds by the clock, and of the processors."""

    clock: float
    processor: float


class Trial:
    """Pushes beside the steps of one model, run and stopped in turns."""

    def __init__(self, step, engine, pushes: BackgroundPushes, steps: int):
        self._step, self._engine, self._pushes, self._steps = step, engine, pushes, steps
        self._number = 0
        #: Of each pair of windows: what passed beside the running and the stopped process.
        self.pairs: list[tuple[Window, Window]] = []
        self.standing_still: list[float] = []

    def _processes(self) -> list[psutil.Process]:
        """The pushing process, if it has begun and not ended."""
        found = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
        return [child for child in found if "mlm.publishing.uploads" in child.cmdline()]

    def _window(self, running: bool, checkpoint: bool = False) -> Window:
        for process in self._processes():
            (process.resume if running else process.suspend)()
        begun, used = time.perf_counter(), self._processor_seconds()
        if checkpoint:
            self._pushes.act(self._number, self._engine)
            self.standing_still.append(time.perf_counter() - begun)
        for _ in range(self._steps):
            self._step()
        return Window(time.perf_counter() - begun, self._processor_seconds() - used)

    def _processor_seconds(self) -> float:
        """Of this process and the pushing ones, those that have ended as well."""
        pushing = sum(sum(process.cpu_times()[:2]) for process in self._processes())
        ended = os.times()
        return time.process_time() + pushing + ended.children_user + ended.children_system

    def push(self) -> None:
        """One push from its beginning to its end."""
        self._number += 1
        running = True
        windows = [self._window(running, checkpoint=True)]
        while self._pushes.busy:
            running = not running
            windows.append(self._window(running))
        for process in self._processes():
            process.resume()
        # Each stopped window with the running one before or behind it, in turns.
        last = len(windows) - 1
        for i in range(1, len(windows), 2):
            neighbour = i - 1 if len(self.pairs) % 2 or i == last else i + 1
            self.pairs.append((windows[neighbour], windows[i]))


def interval(ratios: list[float]) -> list[float]:
    """The 95 % bootstrap interval of the median."""
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(2000))
    return [round(medians[int(share * 2000)], 4) for share in (0.025, 0.975)]


def measure(pairs: int, rate: float, steps: int) -> dict:
    """Pushes until there are `pairs` pairs of windows; medians and their intervals."""
    tf.config.threading.set_intra_op_parallelism_threads(2)
    make_deterministic(0)
    model, optimizer = model_and_optimizer(2, 128, 8_000, 128)
    step = our_step(model, optimizer, masked_batch(8_000, 32, 128))
    hub, address = slow_hub(rate)
    os.environ |= {"HF_ENDPOINT": address, "HF_TOKEN": TOKEN}
    checkpoints = {"every": 1, "branch": "checkpoints", "wait": 600}
    asked = {"model": "someone/model", "private": True, "attempts": 1, "checkpoints": checkpoints}
    with tempfile.TemporaryDirectory() as directory:
        pushes = BackgroundPushes(Publish.of_param(asked), f"{directory}/pushes", ())
        engine = SimpleNamespace(
            exported=lambda: ExportedModel(pytorch_weights(model), model.config)
        )
        try:
            trial = Trial(step, engine, pushes, steps)
            for _ in range(20):
                step()
            trial.push()  # Makes the repository, and is not counted.
            trial.pairs.clear()
            while len(trial.pairs) < pairs:
                trial.push()
        finally:
            pushes.stop()
            hub.stdin.close()
            hub.wait()
    clock = [running.clock / stopped.clock - 1 for running, stopped in trial.pairs]
    processor = [running.processor / stopped.processor - 1 for running, stopped in trial.pairs]
    return {
        "checkpoint_megabytes": round(sum(4 * int(tf.size(v)) for v in model.weights) / 1e6, 1),
        "hub_megabytes_a_second": rate / 1e6,
        "pushes": len(trial.standing_still) - 1,
        "pairs": len(clock),
        "seconds_of_a_step": round(statistics.median(p[1].clock for p in trial.pairs) / steps, 4),
        "seconds_standing_still": round(statistics.median(trial.standing_still), 4),
        "cost_beside_a_push": round(statistics.median(clock), 4),
        "interval": interval(clock),
        "processor_cost": round(statistics.median(processor), 4),
        "processor_interval": interval(processor),
        "limit": LIMIT,
    }


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--pairs", type=int, default=300, help="pairs of windows")
    arguments.add_argument("--rate", type=float, default=500_000, help="bytes the Hub takes a s")
    arguments.add_argument("--steps", type=int, default=3, help="steps of a window")
    given = arguments.parse_args()
    found = measure(given.pairs, given.rate, given.steps)
    print(json.dumps(found, indent=2))
    low, high = found["interval"]
    undecided = low <= 0 and high >= LIMIT
    return int(found["processor_cost" if undecided else "cost_beside_a_push"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
