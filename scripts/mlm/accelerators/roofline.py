"""From the compiler's operation counts and the datasheet's peaks to a range of time.

The roofline (Williams, Waterman and Patterson, 2009): a step takes at least as long as its
arithmetic at the chip's peak. No program reaches the peak, so the range is that of a stated
share of it. A compiler and datasheet estimate, not measured.
"""

from mlm.accelerators.artefacts import Estimate
from mlm.accelerators.collectives import Collective, bytes_sent
from mlm.config.chips import ChipFacts

#: The lowest and the highest share of a chip's peak that is assumed.
UTILISATION = (0.2, 0.6)


def estimate(
    facts: ChipFacts,
    *,
    flops: float,
    bytes_accessed: float,
    replicas: int,
    chips: int,
    steps: int,
    collectives: list[Collective],
) -> Estimate:
    """The range for a step of `flops` operations and `collectives` on each replica."""
    share = chips / replicas  # of a chip that one replica has
    at_peak = flops / (facts.bf16_flops * share)
    seconds = [at_peak / used for used in reversed(UTILISATION)]
    sent = sum(bytes_sent(each, facts.replicas_per_chip) for each in collectives)
    return Estimate(
        step_seconds=tuple(map(_rounded, seconds)),
        run_seconds=tuple(_rounded(each * steps) for each in seconds),
        bandwidth_seconds=_rounded(bytes_accessed / (facts.hbm_bytes_per_second * share)),
        collective_seconds=_rounded(sent / facts.interconnect_bytes_per_second),
        steps=steps,
        utilisation=UTILISATION,
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")
