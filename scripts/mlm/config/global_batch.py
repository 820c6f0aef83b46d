"""The global batch: the samples of one update of the weights."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GlobalBatch:
    """`per_replica` samples on each of `replicas`, in each of the `accumulated` batches."""

    per_replica: int
    replicas: int
    accumulated: int

    @property
    def samples(self) -> int:
        return self.per_replica * self.replicas * self.accumulated

    def unfilled(self, samples: int, has: str = "has") -> str | None:
        """Why a train split that `has` so many samples is too small, in words; None if not."""
        if self.samples <= samples:
            return None
        advice = "Not even a batch of 1 is filled: add text, take fewer replicas or accumulate less"
        if largest := samples // (self.replicas * self.accumulated):
            advice = f"Lower pretraining.per_replica_batch_size to {largest:,} or less"
        return (
            f"one step takes {self.samples:,} samples ({self.per_replica:,} × {self.replicas} "
            f"replicas × {self.accumulated} accumulated), and the train split {has} {samples:,}. "
            f"{advice}"
        )
