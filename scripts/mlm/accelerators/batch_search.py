"""The largest per-replica batch that fits a target's memory.

Each candidate is lowered and compiled for the target, because memory does not grow evenly: near the
limit the compiler computes values twice instead of keeping them (rematerialisation). Where the
compiler says how much two batches need, the next one tried is where a line through them meets the
limit, else the middle of those left. Quick compilations search; a full one confirms.
"""

import sys
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache, partial

from mlm.accelerators.artefacts import LABEL, Batches
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, Compilation, compile_for
from mlm.accelerators.lowering import lower_run
from mlm.config.resolution import RunConfiguration
from mlm.config.targets import memory_of_a_replica, replicas_of
from mlm.foundations.errors import MlmError
from mlm.training.run import RunFiles, read_manifests

PRECISIONS = ("float32", "bfloat16")
#: Batches worth trying.
CANDIDATES = (1, 2, 4, *range(8, 1025, 8))


def find_batches(config: RunConfiguration, files: RunFiles, targets: list[str]) -> Batches:
    """The largest of `CANDIDATES` that fits, for every target, in the configuration's precision,
    or if that is auto in all of `PRECISIONS`.

    No batch is tried that the train split does not fill. MlmError if a step cannot be lowered.
    """
    samples = read_manifests(files, config.sequence_length)["train"].num_samples
    with tempfile.TemporaryDirectory() as directory:

        @cache
        def program(precision: str, batch: int) -> str:
            path = f"{directory}/{precision}-{batch}"
            section = config.pretraining.model_copy(update={"per_replica_batch_size": batch})
            device = config.accelerator.model_copy(update={"precision": precision})
            asked = config.model_copy(update={"pretraining": section, "accelerator": device})
            lowering = lower_run(asked, files, path)
            if not lowering.step.lowered:
                said = "; ".join(f.message for f in lowering.findings)
                raise MlmError(
                    f"the step cannot be lowered for a batch of {batch} in {precision}: {said}"
                )
            return path

        def compiled(target: str, precision: str, batch: int, quick: bool) -> Compilation:
            (found,) = compile_for(target, program(precision, batch), quick=quick)
            effort = "quick" if quick else "full"
            print(
                f"{target} {precision}: batch {batch}: {found.outcome} ({effort} compilation)",
                file=sys.stderr,
            )
            return found

        found, named = {}, config.accelerator.precision
        precisions = PRECISIONS if named == "auto" else [named]
        for target in targets:
            filled = config.pretraining.batch_on(replicas_of(target)).largest_filled(samples)
            batches = [b for b in CANDIDATES if b <= max(1, filled)]
            memory = memory_of_a_replica(target)
            found[target] = {
                precision: largest_batch(batches, partial(compiled, target, precision), memory)
                for precision in precisions
            }
    return Batches(LABEL, found)


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
