"""When a training uses a sample, and what it is shown of it: asked of what the engines run.

The order is that of `mlm.samples.stored_batches`, which feeds both engines, and the masks are those
of `mlm.samples.masking`, which both apply to a batch with the run's plan, its seed, and the epoch
and index of each sample.
"""

from dataclasses import dataclass

import numpy as np

from mlm.samples.masking import FIXED_EPOCH, VALIDATION_SEED, MaskingPlan, mask_batch
from mlm.samples.split_samples import evenly_spread
from mlm.samples.stored_batches import BatchOrder, ShardFiles
from mlm.training.run import Run


@dataclass(frozen=True)
class Shown:
    """A sample as it is shown: `input_ids` [sequence], and at which places the model is asked for
    the token that stood there, bool [sequence]."""

    input_ids: np.ndarray
    asked: np.ndarray


@dataclass(frozen=True)
class UseOfSample:
    """The update, from 1, and the epoch, from 0, that use a sample, and what is shown then."""

    step: int
    epoch: int
    shown: Shown


@dataclass(frozen=True)
class Batches:
    """What decides the batches of a training, and what is shown of them: their order, the shards
    of the train split, the plan of the masks, and the seed."""

    order: BatchOrder
    shards: ShardFiles
    plan: MaskingPlan
    seed: int


def uses_of(
    run: Run,
    index: np.ndarray,
    input_ids: np.ndarray,
    attention_mask: np.ndarray,
) -> list[list[UseOfSample]]:
    """As `uses_in`, of the batches of a run."""
    order = run.order_from(0)
    batches = Batches(order, run.train, run.plan, run.seed)
    return uses_in(batches, index, input_ids, attention_mask)


def uses_in(
    batches: Batches,
    index: np.ndarray,
    input_ids: np.ndarray,
    attention_mask: np.ndarray,
) -> list[list[UseOfSample]]:
    """For each of some samples of the train split, all updates that use it, in order.

    `index` [samples] are their indices in the split, `input_ids` and `attention_mask`
    [samples, sequence] what is stored.
    """
    order = batches.order
    samples, end = order.of_samples(batches.shards), order.steps * order.global_batch_size
    found: list[list[UseOfSample]] = [[] for _ in index]
    for epoch in range(-(-end // samples.num_samples)):
        places = samples.places(index, epoch)
        used = np.flatnonzero(places < end)
        if not len(used):
            continue
        epochs = np.full(len(used), epoch)
        shown = _shown(
            mask_batch(
                input_ids[used],
                attention_mask[used],
                index[used],
                batches.plan,
                batches.seed,
                epochs,
            )
        )
        for row, step, one in zip(used, order.updates_of(places[used]), shown, strict=True):
            found[row].append(UseOfSample(int(step), epoch, one))
    return found


def looked_at_in_validation(run: Run, index: int) -> bool:
    """Whether validation looks at the sample `index` of its split."""
    total = run.validation.num_samples
    count = run.pretraining.validation.samples or total
    return index in evenly_spread(total, count)


def shown_in_validation(
    run: Run, index: int, input_ids: np.ndarray, attention_mask: np.ndarray
) -> Shown:
    """A sample of the validation split as each validation is shown it."""
    batch = mask_batch(
        input_ids[None],
        attention_mask[None],
        np.array([index]),
        run.validation_plan,
        VALIDATION_SEED,
        FIXED_EPOCH,
    )
    return _shown(batch)[0]


def _shown(batch: dict) -> list[Shown]:
    """The samples of a masked batch one by one."""
    used = batch["weights"] > 0
    asked = np.zeros(batch["input_ids"].shape, bool)
    rows = np.nonzero(used)[0]
    asked[rows, batch["positions"][used]] = True
    return [Shown(ids, where) for ids, where in zip(batch["input_ids"], asked, strict=True)]
