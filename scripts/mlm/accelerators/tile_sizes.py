"""What padding to the hardware's tiles wastes.

A TPU keeps the last two dimensions of an array in tiles of 8 × 128 numbers of 32 bits (16 × 128
of 16 bits); its matrix unit multiplies 128 × 128. What does not fill them is padded and
computed all the same (Cloud TPU documentation, "Performance guide").
"""

from mlm.accelerators.artefacts import Dimension
from mlm.accelerators.findings import ADVICE, WARNING, Finding
from mlm.training.run import Run

SUBLANES, LANES = 8, 128


def padding_waste(size: int, multiple: int) -> float:
    """Share of the padded size that is padding."""
    padded = -(-size // multiple) * multiple
    return round(1.0 - size / padded, 6)


def tile_advice(run: Run, precision: str) -> tuple[list[Finding], list[Dimension]]:
    """What to change about the sizes, and the waste of each dimension.

    Batch and sequence are held against 8 (a warning) and 128 (advice), the model's widths
    against 128.
    """
    config, plan = run.model_config, run.plan
    batch = run.pretraining.per_replica_batch_size
    batch = run.pretraining.per_replica_batch_size
    rows = SUBLANES if precision == "float32" else 2 * SUBLANES
    head = config.hidden_size // config.num_attention_heads
    sizes = {
        "per_replica_batch_size": (batch, SUBLANES),
        "sequence_length": (plan.sequence_length, LANES),
        "tokens of one replica": (
            run.pretraining.per_replica_batch_size * plan.sequence_length,
            rows,
        ),
        "prediction slots of one replica": (
            run.pretraining.per_replica_batch_size * plan.slots,
            rows,
        ),
        "hidden_size": (config.hidden_size, LANES),
        "width of an attention head": (head, LANES),
        "vocabulary_size": (plan.vocabulary_size, LANES),
    }
    dimensions = [Dimension(n, s, m, padding_waste(s, m)) for n, (s, m) in sizes.items()]
    findings = []
    for name, key in (
        ("pretraining.per_replica_batch_size", "per_replica_batch_size"),
        ("shards.sequence_length", "sequence_length"),
    ):
        size = sizes[key][0]
        if size % SUBLANES:
            severity = WARNING
            message = (
                f"{name} is {size}, no multiple of {SUBLANES}: {padding_waste(size, SUBLANES):.0%} "
                f"of each tile is padding. Try {-(-size // SUBLANES) * SUBLANES}"
            )
        elif size % LANES:
            severity = ADVICE
            message = (
                f"{name} is {size}; multiples of {LANES} fill the tiles "
                f"({padding_waste(size, LANES):.0%} of a tile of {LANES} is padding)"
            )
        else:
            continue
        findings.append(Finding("tile_sizes", severity, message))
    return findings, dimensions
