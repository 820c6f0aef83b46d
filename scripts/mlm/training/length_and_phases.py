"""How many updates a run has, and its phases: parts with one row length, mask share and batch."""

import math
from dataclasses import dataclass, replace

from mlm.config.pretraining import Recipe
from mlm.samples.batch_order import BatchOrder
from mlm.samples.masking import MaskingPlan
from mlm.samples.shard_reading import ShardFiles

#: Difference of the seeds of successive phases, modulo 2**32: 2**32 over the golden ratio.
_GOLDEN = 0x9E3779B9


@dataclass(frozen=True)
class TrainingPhase:
    """Updates `first` + 1 to `end` of a run, on batches of `batch_size` rows of `train`: `seed`
    decides their order, `seed` and `plan` their masks."""

    first: int
    end: int
    seed: int
    batch_size: int
    plan: MaskingPlan
    train: ShardFiles
    shuffle_window: int

    def order_from(self, step: int) -> BatchOrder:
        """Return the order of the phase's batches after `step` updates of the run."""
        return BatchOrder(
            seed=self.seed,
            global_batch_size=self.batch_size,
            shuffle_window=self.shuffle_window,
            start_step=max(step, self.first),
            steps=self.end,
            first=self.first,
        )

    @property
    def values(self) -> list:
        """Last step, row length, share of masked tokens and batch size: what phases differ in."""
        return [self.end, self.plan.sequence_length, self.plan.mlm_probability, self.batch_size]


def updates_of(recipe: Recipe, samples: int, sequence_length: int, batch: int) -> int:
    """Return the length of a training in updates, for a train split of `samples` in batches of
    `batch`, which are larger or smaller in phases that say so."""
    if recipe.steps:
        return recipe.steps
    rows: float = batch
    if recipe.phases:
        phases = recipe.in_phases(sequence_length)
        tokens = sum(p.share * p.sequence_length * p.per_replica_batch_size for p in phases)
        tokens /= sequence_length * recipe.per_replica_batch_size * sum(p.share for p in phases)
        # Shares such as 0.7 + 0.2 + 0.1 add up to a little less than 1, which is no step more.
        rows = round(rows * tokens, 9)
    if recipe.epochs:
        return max(1, math.ceil(recipe.epochs * samples / rows))
    return max(1, math.ceil((recipe.tokens or 0) / (rows * sequence_length)))


def phases_of(
    recipe: Recipe, replicas: int, plan: MaskingPlan, train: ShardFiles
) -> tuple[TrainingPhase, ...]:
    """Return the parts of a training whose steps and seed are settled, one after the other."""
    length, phases, first = train.sequence_length, [], 0
    settled = zip(recipe.in_phases(length), recipe.ends(recipe.steps or 0), strict=True)
    for number, (phase, end) in enumerate(settled):
        row, share = phase.sequence_length, phase.mlm_probability
        phases.append(
            TrainingPhase(
                first=first,
                end=end,
                # So that order and masks differ from those of the earlier phases.
                seed=((recipe.seed or 0) + number * _GOLDEN) % 2**32,
                batch_size=recipe.batch_on(replicas, phase).samples,
                plan=replace(plan, sequence_length=row, mlm_probability=share),
                train=train.in_rows(row // length),
                shuffle_window=recipe.shuffle_window,
            )
        )
        first = end
    return tuple(phases)
