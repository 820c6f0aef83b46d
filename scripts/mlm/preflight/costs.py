"""The FLOPs of a step's products, counted from its jaxpr, and the time of a run by the roofline.

XLA counts a loop's body once and nothing of cuDNN's kernels, and a GPU's compiler counts nothing.
What is no product, as a rule less than a hundredth, is left out as by Chowdhery et al. ("PaLM",
2022, arXiv 2204.02311, appendix B). The roofline (Williams, Waterman and Patterson, 2009): a step
takes as long as its arithmetic at a share of the chip's peak, or, if that is longer, at least as
long as moving its data.
"""

import math
from typing import Any

from jax.extend.core import jaxprs_in_params

from mlm.config.chips import CHIPS, generation_of
from mlm.preflight.artefacts import Estimate, Target

#: The share of a chip's peak that is assumed: that of Ettin's encoder of 150 million parameters in
#: bfloat16 on H100s, derived from its hours (Weller et al., 2025, arXiv 2507.11412).
UTILISATION = 0.27


#: Products in a kernel of attention: scores and weighted sum; for the gradient, the scores again
#: and four more.
_IN_ATTENTION = {"dot_product_attention_fwd_wrapper": 2, "dot_product_attention_bwd_wrapper": 5}


def add_times(target: Target, updates: int) -> None:
    """Add the estimated time of a run of so many `updates` to `target`."""
    facts = CHIPS[generation_of(target.target)]
    rate = UTILISATION * facts.peak_flops(str(target.precision))
    arithmetic = (target.flops_per_step or 0.0) / rate
    memory = (target.bytes_accessed or 0.0) / facts.hbm_bytes_per_second
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


def product_flops(jaxpr: Any) -> int:
    """The FLOPs of `jaxpr` on all devices; loops whose length data decides count once."""
    return sum(map(_of_equation, jaxpr.eqns))


def _of_equation(equation: Any) -> int:
    name, operands = equation.primitive.name, [v.aval.shape for v in equation.invars[:2]]
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        depth = math.prod(operands[0][axis] for axis in contracted)
        return 2 * depth * math.prod(equation.outvars[0].aval.shape)
    if products := _IN_ATTENTION.get(name):
        keys = operands[1][1]  # of [batch, keys, heads, width]
        return 2 * products * math.prod(operands[0]) * keys
    inner = [product_flops(each) for each in jaxprs_in_params(equation.params)]
    if name == "cond":
        return max(inner)
    times = 1
    if name == "scan":
        times = equation.params["length"]
    elif name == "shard_map":  # inside are the shapes of one device
        times = equation.params["mesh"].size
    return sum(inner) * times
