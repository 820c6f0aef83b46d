"""The largest per-replica batch that fits a target's memory, by bisection.

Each candidate is lowered and compiled for the target, because memory does not grow evenly: near the
limit the compiler computes values twice instead of keeping them (rematerialisation). Quick
compilations search; a full one confirms.
"""

import sys
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache, partial

from mlm.accelerators.artefacts import LABEL, Batches
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, Compilation, compile_for
from mlm.accelerators.lowering import lower_run
from mlm.config.accelerator import Accelerator
from mlm.config.chips import replicas_of
from mlm.config.resolution import RunConfiguration
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest
from mlm.training.run import RunFiles

PRECISIONS = ("float32", "bfloat16")
#: Batches worth trying.
CANDIDATES = (1, 2, 4, *range(8, 1025, 8))


def find_batches(config: RunConfiguration, files: RunFiles, targets: list[str]) -> Batches:
    """The largest of `CANDIDATES` that fits, for every target and precision.

    No batch is tried that the train split does not fill. Raises MlmError for a step that cannot be
    lowered.
    """
    samples = Manifest.read(files.manifests["train"]).num_samples
    accumulated = config.pretraining.optimizer.gradient_accumulation_steps
    with tempfile.TemporaryDirectory() as directory:

        @cache
        def program(precision: str, batch: int) -> str:
            path = f"{directory}/{precision}-{batch}"
            section = config.pretraining.model_copy(update={"per_replica_batch_size": batch})
            device = Accelerator(precision=precision)
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

        found = {}
        for target in targets:
            filled = samples // (accumulated * replicas_of(target))
            batches = [b for b in CANDIDATES if b <= max(1, filled)]
            found[target] = {
                precision: largest_batch(batches, partial(compiled, target, precision))
                for precision in PRECISIONS
            }
    return Batches(LABEL, found)


def largest_batch(
    batches: Sequence[int], compiled: Callable[[int, bool], Compilation]
) -> int | None:
    """The largest of `batches` (ascending) that fits, 0 if none does.

    `compiled(batch, quick)` asks the compiler; None if it cannot answer for the smallest.
    """
    if compiled(batches[0], True).outcome not in (COMPILED, NO_MEMORY):
        return None
    too_large = bisect_left(batches, True, key=lambda b: compiled(b, True).outcome != COMPILED)
    fitting = list(batches[:too_large])
    while fitting and compiled(fitting[-1], False).outcome != COMPILED:
        fitting.pop()
    return fitting[-1] if fitting else 0
