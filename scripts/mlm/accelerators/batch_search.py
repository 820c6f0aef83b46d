"""The largest per-replica batch that fits a target's memory, by bisection.

Every batch that is tried is lowered anew, in a TensorFlow process of its own, and compiled for
the target: memory does not grow evenly, since near the limit the compiler computes values twice
instead of keeping them (rematerialisation). The search goes by quick compilations; where it
ends, full ones decide.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mlm.accelerators.artefacts import Batches, Search, Searches, Trial
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, Compilation
from mlm.accelerators.described_steps import compile_step
from mlm.accelerators.roofline import LABEL
from mlm.config.chips import CHIPS, generation_of, replicas_of
from mlm.foundations.child_process import child_environment
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest

PRECISIONS = ("float32", "bfloat16")
LARGEST_BATCH = 1024
#: Growth of the FLOPs of one sample from which values are taken to be computed twice.
_REMATERIALISED = 1.01


def candidates(largest: int) -> list[int]:
    """Batches worth trying: 1, 2, 4, and the multiples of 8, ascending, up to `largest`."""
    return [b for b in (1, 2, 4) if b <= largest] + list(range(8, largest + 1, 8))


def search(
    batches: list[int], guess: int, attempt: Callable[[int], Trial], stride: int = 1
) -> Search:
    """The largest of `batches` (ascending) that fits, trying `guess` first.

    From the guess outwards in growing strides, the first of `stride` places, then by bisection:
    about twice the logarithm of the guess' error in trials.
    """
    tried: dict[int, Trial] = {}

    def fits(place: int) -> bool:
        batch = batches[place]
        if batch not in tried:
            tried[batch] = attempt(batch)
        return tried[batch].fits

    low, high = -1, len(batches)  # batches[low] fits, batches[high] does not
    place = max((i for i, b in enumerate(batches) if b <= guess), default=0)
    if fits(place):
        low = place
        while high == len(batches) and low < len(batches) - 1:
            place = min(low + stride, len(batches) - 1)
            low, high = (place, high) if fits(place) else (low, place)
            stride *= 2
    else:
        high = place
        while low == -1 and high > 0:
            place = max(high - stride, 0)
            low, high = (place, high) if fits(place) else (low, place)
            stride *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    trials = [tried[b] for b in sorted(tried)]
    return Search(
        largest=batches[low] if low >= 0 else 0,
        too_large=batches[high] if high < len(batches) else None,
        rematerialises_from=_rematerialises_from(trials),
        trials=trials,
    )


def _rematerialises_from(trials: list[Trial]) -> int | None:
    costs = {t.batch: t.flops_per_sample for t in trials if t.fits and t.flops_per_sample}
    cheapest = min(costs.values(), default=0.0)
    return min((b for b, cost in costs.items() if cost > cheapest * _REMATERIALISED), default=None)


def first_guess(found: Compilation, batch: int, hbm: int) -> int:
    """The batch whose temporaries would fill `hbm` bytes, if they grew with the batch."""
    return max(1, int((hbm - found.fixed) * batch / max(found.temporaries, 1)))


class Programs:
    """The run's step lowered for other batches and precisions, each made once."""

    def __init__(self, request: dict, directory: str):
        self._request, self._directory = request, Path(directory)

    def path(self, precision: str, batch: int) -> Path:
        """The StableHLO of the step. Raises MlmError where it cannot be lowered."""
        program = self._directory / f"{precision}-{batch}.stablehlo"
        if not program.exists():
            settings = self._request["settings"]
            settings = settings | {
                "accelerator": {"precision": precision},
                "pretraining": settings["pretraining"] | {"per_replica_batch_size": batch},
            }
            request = self._request | {
                "settings": settings,
                "program": str(program),
                "summary": str(program.with_suffix(".json")),
            }
            ran = subprocess.run(
                [sys.executable, "-m", "mlm.accelerators.lowering_job"],
                input=json.dumps(request),
                capture_output=True,
                text=True,
                cwd=Path.cwd(),
                env=child_environment(),
            )
            if ran.returncode or not program.stat().st_size:
                said = (ran.stderr.strip().splitlines() or ["nothing"])[-1]
                raise MlmError(
                    f"the step could not be lowered for a batch of {batch} in {precision}: {said}"
                )
        return program


def find_batches(request: dict, targets: list[str], batch: int, largest: int, output: str) -> None:
    """Write for every target and precision the largest batch that fits, to `output`.

    `request` holds the `settings` and `files` of the run as `lowering_job` takes them, `batch`
    is the run's own, where the guess comes from. No batch is tried that the train split does
    not fill. A target that the compiler does not know has null.
    """
    samples = Manifest.read(request["files"]["manifests"]["train"]).num_samples
    accumulation = request["settings"]["pretraining"]["optimizer"]["gradient_accumulation_steps"]
    found: dict[str, Searches] = {}
    with tempfile.TemporaryDirectory() as directory:
        programs = Programs(request, directory)
        for target in targets:
            filled = max(1, min(largest, samples // (accumulation * replicas_of(target))))
            found[target] = {
                precision: _find(programs, target, precision, batch, filled)
                for precision in PRECISIONS
            }
    Batches(LABEL, found).write(output)


def _find(
    programs: Programs, target: str, precision: str, batch: int, largest: int
) -> Search | None:
    facts = CHIPS[generation_of(target)]
    known: dict[tuple[int, bool], Compilation] = {}

    def compiled(size: int, quick: bool) -> Compilation:
        if (size, quick) not in known:
            found = compile_step(target, programs.path(precision, size), quick)
            known[size, quick] = found
            effort = "quick" if quick else "full"
            print(
                f"{target} {precision}: batch {size}: {found.outcome} ({effort} compilation, "
                f"{found.processor_seconds:.0f} s of a processor)",
                file=sys.stderr,
            )
        return known[size, quick]

    def attempt(size: int, quick: bool) -> Trial:
        found = compiled(size, quick)
        if found.outcome != COMPILED:
            return Trial(size, fits=False, quick=quick)
        return Trial(size, True, found.peak, found.flops / size, quick)

    batches = candidates(largest)
    start = max((b for b in batches if b <= batch), default=batches[0])
    first = compiled(start, True)
    if first.outcome not in (COMPILED, NO_MEMORY):
        return None
    guess = start
    if first.outcome == COMPILED:
        hbm = facts.hbm_bytes * first.chips // first.replicas
        guess = min(first_guess(first, start, hbm), largest)
    # A guess is an eighth off or so; where the quick search ends, the full one begins.
    wide = max(1, guess // 64)
    quick = search(batches, guess, partial(attempt, quick=True), wide)
    result = search(batches, quick.largest or batches[0], partial(attempt, quick=False))
    trials = {t.batch: t for t in (attempt(start, True), *quick.trials, *result.trials)}
    result.trials = [trials[b] for b in sorted(trials)]
    result.rematerialises_from = _rematerialises_from(result.trials)
    return result
