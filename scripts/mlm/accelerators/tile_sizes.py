"""What padding to the hardware's tiles wastes.

A TPU keeps the last two dimensions of an array in tiles of 8 × 128 numbers of 32 bits (16 × 128
of 16 bits); its matrix unit multiplies 128 × 128. What does not fill them is padded and
computed all the same (Cloud TPU documentation, "Performance guide").
"""

from mlm.accelerators.artefacts import ADVICE, WARNING, Dimension, Finding
from mlm.training.run import Run

SUBLANES, LANES = 8, 128


def padding_waste(size: int, multiple: int) -> float:
    """Share of the padded size that is padding."""
    padded = -(-size // multiple) * multiple
    return round(1.0 - size / padded, 6)


def tile_advice(run: Run, precision: str) -> tuple[list[Finding], list[Dimension]]:
    """What to change about batch and sequence length, and the waste of each dimension."""
    config, plan = run.model_config, run.plan
    batch, length = run.pretraining.per_replica_batch_size, plan.sequence_length
    rows = SUBLANES if precision == "float32" else 2 * SUBLANES
    sizes = {
        "per_replica_batch_size": (batch, SUBLANES),
        "sequence_length": (length, LANES),
        "tokens of one replica": (batch * length, rows),
        "prediction slots of one replica": (batch * plan.slots, rows),
        "hidden_size": (config.hidden_size, LANES),
        "width of an attention head": (config.hidden_size // config.num_attention_heads, LANES),
        "vocabulary_size": (plan.vocabulary_size, LANES),
    }
    dimensions = [Dimension(n, s, m, padding_waste(s, m)) for n, (s, m) in sizes.items()]
    asked = {"pretraining.per_replica_batch_size": batch, "shards.sequence_length": length}
    findings = []
    for name, size in asked.items():
        if size % SUBLANES:
            message = (
                f"{name} is {size}, no multiple of {SUBLANES}: {padding_waste(size, SUBLANES):.0%} "
                f"of each tile is padding. Try {-(-size // SUBLANES) * SUBLANES}"
            )
            findings.append(Finding("tile_sizes", WARNING, message))
        elif size % LANES:
            message = (
                f"{name} is {size}; multiples of {LANES} fill the tiles "
                f"({padding_waste(size, LANES):.0%} of a tile of {LANES} is padding)"
            )
            findings.append(Finding("tile_sizes", ADVICE, message))
    return findings, dimensions
