"""How long a training is, in updates of the weights."""

import math


def number_of_updates(section: dict, samples: int, sequence_length: int, batch: int) -> int:
    """Updates that `steps`, `epochs` or `tokens` of section `pretraining` come to.

    `batch` is the global batch in samples. A last batch that an epoch only partly fills counts
    as one.
    """
    if section["steps"]:
        return section["steps"]
    if section["epochs"]:
        return max(1, math.ceil(section["epochs"] * samples / batch))
    return max(1, math.ceil(section["tokens"] / (batch * sequence_length)))
