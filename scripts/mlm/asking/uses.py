"""When a training uses a sample, and what it is shown of it: computed by the code of the engines.

`mlm.samples.stored_batches` orders the samples for both engines, and `mlm.samples.masking` masks
them by the run's plan, its seed, and the epoch and index of each sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlm.asking.packed import Packed
from mlm.samples.masking import FIXED_EPOCH, VALIDATION_SEED, MaskingPlan, mask_batch
from mlm.samples.split_samples import evenly_spread
from mlm.samples.stored_batches import BatchOrder, ShardFiles
from mlm.training.run import Run


@dataclass(frozen=True)
class Shown:
    """A sample as it is shown, `input_ids` [sequence], and where its targets are, `asked` bool
    [sequence]."""

    input_ids: np.ndarray
    asked: np.ndarray


@dataclass(frozen=True)
class UseOfSample:
    """The update, from 1, and the epoch, from 0, that use a sample, and what is shown then."""

    step: int
    epoch: int
    shown: Shown


@dataclass(frozen=True)
class RunBatches:
    """What decides the batches of a training: order, train shards, masking plan, and seed."""

    order: BatchOrder
    shards: ShardFiles
    plan: MaskingPlan
    seed: int

    @classmethod
    def of(cls, run: Run) -> "RunBatches":
        """Those of a run."""
        return cls(run.order_from(0), run.train, run.plan, run.seed)

    def uses(
        self, index: np.ndarray, input_ids: np.ndarray, attention_mask: np.ndarray
    ) -> list[list[UseOfSample]]:
        """For each of some samples of the train split, all updates that use it, in order.

        `index` [samples] are their indices in the split, `input_ids` and `attention_mask`
        [samples, sequence] what is stored.
        """
        samples = self.order.of_samples(self.shards)
        end = self.order.steps * self.order.global_batch_size
        found: list[list[UseOfSample]] = [[] for _ in index]
        for epoch in range(-(-end // samples.num_samples)):
            places = samples.places(index, epoch)
            used = np.flatnonzero(places < end)
            if not len(used):
                continue
            stored = input_ids[used], attention_mask[used], index[used]
            epochs = np.full(len(used), epoch)
            shown = _shown(mask_batch(*stored, self.plan, self.seed, epochs))
            steps = self.order.updates_of(places[used]).tolist()
            for row, step, one in zip(used, steps, shown, strict=True):
                found[row].append(UseOfSample(step, epoch, one))
        return found

    def uses_of(self, parts: Sequence[Packed]) -> list[list[UseOfSample] | None]:
        """The uses of the sample of each of `parts`; None if it is in a hole of the run."""
        if not parts:
            return []
        uses = self.uses(
            np.array([part.sample for part in parts], np.int64),
            np.stack([part.input_ids for part in parts]),
            np.stack([part.attention_mask for part in parts]),
        )
        return [
            None if self.plan.leaves_out(np.array([part.sample]), part.start + 1)[0, -1] else one
            for part, one in zip(parts, uses, strict=True)
        ]


def shown_in_validation(run: Run, part: Packed) -> Shown | None:
    """The sample of `part`, of the validation split, as each validation is shown it; None if none
    looks at it."""
    total = run.validation.num_samples
    if part.sample not in evenly_spread(total, run.pretraining.validation.samples or total):
        return None
    stored = part.input_ids[None], part.attention_mask[None], np.array([part.sample])
    return _shown(mask_batch(*stored, run.validation_plan, VALIDATION_SEED, FIXED_EPOCH))[0]


def _shown(batch: dict) -> list[Shown]:
    """The samples of a masked batch one by one."""
    used = batch["weights"] > 0
    asked = np.zeros(batch["input_ids"].shape, bool)
    rows = np.nonzero(used)[0]
    asked[rows, batch["positions"][used]] = True
    return [Shown(ids, where) for ids, where in zip(batch["input_ids"], asked, strict=True)]
