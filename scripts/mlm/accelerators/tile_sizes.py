"""What padding to the hardware's tiles wastes.

A TPU keeps the last two dimensions of an array in tiles of 8 × 128 numbers of 32 bits (16 × 128
of 16 bits); its matrix unit multiplies 128 × 128. What does not fill them is padded and
computed all the same (Cloud TPU documentation, "Performance guide").
"""

from mlm.accelerators.artefacts import ADVICE, WARNING, Finding

SUBLANES, LANES = 8, 128


def tile_advice(sizes: dict[str, int]) -> list[Finding]:
    """What to change about the settings `sizes`, such as batch and sequence length."""
    findings = []
    for name, size in sizes.items():
        for multiple, severity in ((SUBLANES, WARNING), (LANES, ADVICE)):
            if waste := -size % multiple / (size + -size % multiple):
                message = (
                    f"{name} is {size}, no multiple of {multiple}: {waste:.0%} of the tiles is "
                    f"padding. Try {size + -size % multiple}"
                )
                findings.append(Finding("tile_sizes", severity, message))
                break
    return findings
