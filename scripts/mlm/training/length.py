"""How long a training is, in updates of the weights."""

import math

from mlm.foundations.errors import MlmError

_MOST = 2**31 - 1


def number_of_updates(section: dict, samples: int, sequence_length: int, batch: int) -> int:
    """Updates that `steps`, `epochs` or `tokens` of section `pretraining` come to.

    `batch` is the global batch in samples. A last batch that an epoch only partly fills counts
    as one. Raises MlmError for more than a step counter of 32 bits holds.
    """
    if section["steps"]:
        steps = section["steps"]
    elif section["epochs"]:
        steps = max(1, math.ceil(section["epochs"] * samples / batch))
    else:
        steps = max(1, math.ceil(section["tokens"] / (batch * sequence_length)))
    if steps > _MOST:
        asked = next(key for key in ("steps", "epochs", "tokens") if section[key])
        raise MlmError(
            f"pretraining.{asked}: {section[asked]:g} comes to {steps:.3g} steps; at most "
            f"{_MOST:,} are counted"
        )
    return steps
