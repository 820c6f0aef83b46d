"""The first update of a training that depends on given samples: computed, as their order is."""

from collections.abc import Iterable

import numpy as np

from mlm.training.run import Run


def first_use(run: Run, samples: Iterable[int]) -> int | None:
    """The first update, from 1, that uses one of the samples of the train split; None where no
    update of the run does."""
    index = np.array(sorted(samples), np.int64)
    if not len(index):
        return None
    order = run.order_from(0)
    stream, end = order.of_samples(run.train), order.steps * order.global_batch_size
    for epoch in range(-(-end // stream.num_samples)):
        first = int(stream.places(index, epoch).min())
        if first < end:
            return int(order.updates_of(np.array([first]))[0])
    return None


def first_difference(one: Run, other: Run) -> int | None:
    """The first update, from 1, in which two runs that differ in their holes alone may differ; 0
    where they begin with other weights, None where no update does."""
    holes = [{tuple(s) for s in (r.holes.spans if r.holes else [])} for r in (one, other)]
    different = holes[0] ^ holes[1]
    if not different:
        return None
    if one.model.initialisation.embeddings == "cooccurrence":
        return 0
    return first_use(one, {sample for sample, _, _ in different})
