"""The FLOPs of a step's products, counted from its jaxpr.

XLA counts a loop's body once and nothing of cuDNN's kernels, and a GPU's compiler counts nothing.
What is no product, as a rule less than a hundredth, is left out as by Chowdhery et al. ("PaLM",
2022, arXiv 2204.02311, appendix B).
"""

import math
from typing import Any

from jax.extend.core import jaxprs_in_params

#: Products in a kernel of attention: scores and weighted sum; for the gradient, the scores again
#: and four more.
_IN_ATTENTION = {"dot_product_attention_fwd_wrapper": 2, "dot_product_attention_bwd_wrapper": 5}


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
