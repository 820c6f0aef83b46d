"""From the compiler's operation counts and the datasheet's peaks to a range of time.

The roofline (Williams, Waterman and Patterson, 2009): a step takes at least as long as its
arithmetic at the chip's peak. No program reaches the peak, so the range is that of a stated
share of it. A compiler and datasheet estimate, not measured.
"""

from dataclasses import dataclass

from mlm.accelerators.collectives import Collective, bytes_sent
from mlm.config.chips import ChipFacts

LABEL = "compiler and datasheet estimate, not measured"


@dataclass(frozen=True)
class Estimate:
    """Seconds of one step and of the whole run: (fastest, slowest) of the range.

    `bandwidth_seconds` is what moving XLA's count of bytes alone would take at the peak of the
    memory; where it is above the fastest time, the memory may bound the step.
    `collective_seconds` is what sending between chips alone would take with all links of every chip
    at their full rate in one direction: a step takes longer by as much of it as does not happen
    beside the arithmetic, and a slice whose ends are not joined has not all of the links.
    """

    step_seconds: tuple[float, float]
    run_seconds: tuple[float, float]
    bandwidth_seconds: float
    collective_seconds: float


def estimate(
    facts: ChipFacts,
    *,
    flops: float,
    bytes_accessed: float,
    replicas: int,
    chips: int,
    steps: int,
    utilisation: tuple[float, float],
    collectives: list[Collective],
) -> Estimate:
    """The range for a step of `flops` operations and `collectives` on each replica.

    `utilisation` is the (low, high) share of the chip's bf16 peak that is assumed.
    """
    share = chips / replicas  # of a chip that one replica has
    low, high = utilisation
    at_peak = flops / (facts.bf16_flops * share)
    step = (_rounded(at_peak / high), _rounded(at_peak / low))
    sent = sum(bytes_sent(each, facts.replicas_per_chip) for each in collectives)
    return Estimate(
        step_seconds=step,
        run_seconds=(_rounded(at_peak / high * steps), _rounded(at_peak / low * steps)),
        bandwidth_seconds=_rounded(bytes_accessed / (facts.hbm_bytes_per_second * share)),
        collective_seconds=_rounded(sent / facts.interconnect_bytes_per_second),
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")
