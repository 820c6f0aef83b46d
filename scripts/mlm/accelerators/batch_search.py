"""The largest per-replica batch that fits a target's memory.

Each candidate is compiled for the target, because memory does not grow evenly: near the limit the
compiler computes values twice instead of keeping them (rematerialisation). Where the compiler says
how much two batches need, the next one tried is where a line through them meets the limit, else the
middle of those left. Quick compilations search; a full one confirms.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial

from mlm.accelerators.artefacts import LargestBatch
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, Compilation, compile_for
from mlm.accelerators.described_steps import described_train_step
from mlm.config.accelerator import Accelerator
from mlm.config.targets import memory_of_a_replica, replicas_of
from mlm.training.run import Run

PRECISIONS = ("float32", "bfloat16")
#: Batches worth trying.
CANDIDATES = (1, 2, 4, *range(8, 1025, 8))


def largest_batches(run: Run, accelerator: Accelerator, target: str) -> LargestBatch:
    """The largest of `CANDIDATES` that fits `target`, in the configured precision, or if that is
    auto in all of `PRECISIONS`. No batch is tried that the train split does not fill."""
    accumulated = run.pretraining.optimizer.gradient_accumulation_steps
    filled = run.pretraining.batch_on(replicas_of(target)).largest_filled(run.train.num_samples)
    batches = [b for b in CANDIDATES if b <= max(1, filled)]

    def compiled(precision: str, batch: int, quick: bool) -> Compilation:
        device = accelerator.model_copy(update={"precision": precision})
        description = described_train_step(run, device, target)
        description["samples"] = batch * accumulated
        (found,) = compile_for(target, description, quick=quick)
        effort = "quick" if quick else "full"
        answer = f"batch {batch}: {found.outcome} ({effort} compilation)"
        print(f"{target} {precision}: {answer}", file=sys.stderr)
        return found

    named, memory = accelerator.precision, memory_of_a_replica(target)
    return {
        precision: largest_batch(batches, partial(compiled, precision), memory)
        for precision in (PRECISIONS if named == "auto" else [named])
    }


def largest_batch(
    batches: Sequence[int], compiled: Callable[[int, bool], Compilation], memory: int
) -> int | None:
    """The largest of `batches` (ascending) that fits, 0 if none does.

    `compiled(batch, quick)` asks the compiler; None if it cannot answer for the smallest. A replica
    has so many bytes of `memory`.
    """
    fitting, too_large, needed = 0, len(batches), {}
    tried = 0
    while fitting < too_large:
        found = compiled(batches[tried], True)
        if tried == 0 and found.outcome not in (COMPILED, NO_MEMORY):
            return None
        if found.memory:
            needed[batches[tried]] = found.memory.peak + found.memory.code
        if found.outcome == COMPILED:
            fitting = tried + 1
        else:
            too_large = tried
        tried = _next(batches[fitting:too_large], needed, memory) + fitting
    while fitting and compiled(batches[fitting - 1], False).outcome != COMPILED:
        fitting -= 1
    return batches[fitting - 1] if fitting else 0


def _next(batches: Sequence[int], needed: dict[int, int], memory: int) -> int:
    """The place in `batches` to try next, by the bytes that others `needed`."""
    if len(needed) > 1:
        # The two nearest to the limit, since the line is not quite straight.
        one, other = sorted(needed, key=lambda batch: abs(needed[batch] - memory))[:2]
        slope = (needed[other] - needed[one]) / (other - one)
        if slope > 0:
            fits = bisect_right(batches, one + (memory - needed[one]) / slope)
            return min(max(fits - 1, 0), len(batches) - 1)
    return len(batches) // 2
