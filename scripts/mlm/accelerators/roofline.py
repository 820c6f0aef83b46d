"""From the counts of a compiled step to the time of a run, by the datasheet's peaks.

The roofline (Williams, Waterman and Patterson, 2009): a step takes as long as its arithmetic at a
share of the chip's peak, or, if that is longer, at least as long as moving its data.
"""

from mlm.accelerators.artefacts import Estimate, Target
from mlm.config.chips import CHIPS, generation_of

#: The share of a chip's peak that is assumed: that of Ettin's encoder of 150 million parameters in
#: bfloat16 on H100s, derived from its hours (Weller et al., 2025, arXiv 2507.11412).
UTILISATION = 0.27


def add_times(target: Target, updates: int) -> None:
    """Add the estimated time of a run of so many `updates` to `target`."""
    facts = CHIPS[generation_of(target.target)]
    share = target.chips / target.replicas  # of a chip that one replica has
    rate = UTILISATION * facts.peak_flops(target.precision) * share
    arithmetic = target.flops_per_step / rate
    memory = target.bytes_accessed / (facts.hbm_bytes_per_second * share)
    seconds = max(arithmetic, memory)
    target.estimate = Estimate(
        step_seconds=_rounded(seconds),
        run_seconds=_rounded(seconds * updates),
        steps=updates,
        utilisation=UTILISATION,
        bound="arithmetic" if arithmetic >= memory else "memory",
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")
