"""From what XLA counts of a compiled program to a range of time, by the datasheet's peaks.

The roofline (Williams, Waterman and Patterson, 2009): a step takes at least as long as its
arithmetic at the chip's peak. No program reaches the peak, so the range is that of a stated
share of it. A compiler and datasheet estimate, not measured.
"""

from mlm.accelerators.artefacts import Collective, Estimate, Target
from mlm.config.chips import CHIPS
from mlm.config.targets import generation_of

#: The lowest and the highest share of a chip's peak that is assumed.
UTILISATION = (0.2, 0.6)


def bytes_sent(collective: Collective, replicas_per_chip: int = 1) -> float:
    """What each chip of the group sends, at least, where its chips form a ring.

    2(n-1)/n of an array to sum it up on n chips, half of that to gather or to divide it (Thakur,
    Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005).
    The replicas of one chip send each other nothing.
    """
    chips = collective.replicas / replicas_per_chip
    if chips <= 1:
        return 0.0
    if collective.kind == "collective-permute":
        return float(collective.bytes)
    rounds = 2 if collective.kind == "all-reduce" else 1
    return rounds * (chips - 1) / chips * collective.bytes


def add_times(target: Target, updates: int) -> None:
    """Add the FLOPs of a run of so many `updates`, and its estimated times, to `target`."""
    target.flops_per_run = target.flops_per_step * target.replicas * updates
    facts = CHIPS[generation_of(target.target)]
    share = target.chips / target.replicas  # of a chip that one replica has
    at_peak = target.flops_per_step / (facts.peak_flops(target.precision) * share)
    seconds = [at_peak / used for used in reversed(UTILISATION)]
    sent = sum(bytes_sent(each, facts.replicas_per_chip) for each in target.collectives)
    bandwidth = facts.hbm_bytes_per_second * share
    target.estimate = Estimate(
        step_seconds=tuple(map(_rounded, seconds)),
        run_seconds=tuple(_rounded(each * updates) for each in seconds),
        bandwidth_seconds=_rounded(target.bytes_accessed / bandwidth),
        collective_seconds=_rounded(sent / facts.interconnect_bytes_per_second),
        steps=updates,
        utilisation=UTILISATION,
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")
