"""Muon's numbers, the same in both engines.

Jordan et al., 2024 (https://kellerjordan.github.io/posts/muon/), with the scale and decay of Liu et
al., 2025 (arXiv 2502.16982), so that it shares AdamW's learning rate.
"""

#: Jordan's quintic: so many iterations bring singular values from 0.01 to 1 to between 0.7 and 1.2.
COEFFICIENTS, ITERATIONS = (3.4445, -4.7750, 2.0315), 5
#: Root mean square of an update at a rate of 1, about AdamW's (Liu et al., section 2.2).
RMS = 0.2
