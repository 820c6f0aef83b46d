"""One run with every setting resolved against its data: what its weights follow from."""

import json
from dataclasses import asdict, dataclass, fields

from mlm.foundations.digests import value_sha256
from mlm.model.initialisation import Initialisation
from mlm.samples.holes import Holes
from mlm.samples.masking import MaskingPlan
from mlm.samples.stored_batches import BatchOrder, ShardFiles
from mlm.training.optimisation import OptimizerSettings

#: Masks of the validation samples follow from these in every run, so that their curves compare.
VALIDATION_SEED = 0
VALIDATION_MASKING = {
    "mlm_probability": 0.15,
    "mask_token": 0.8,
    "random_token": 0.1,
    "whole_word": False,
    "slots": None,
}


@dataclass(frozen=True)
class Pretraining:
    """One run, fully determined: everything that its weights depend on."""

    name: str
    model_config: object
    initialisation: Initialisation
    seed: int
    plan: MaskingPlan
    validation_plan: MaskingPlan
    train: ShardFiles
    validation: ShardFiles
    optimizer: OptimizerSettings
    per_replica_batch_size: int
    steps: int
    shuffle_window: int
    validation_every: int
    validation_samples: int | None
    log_every: int
    steps_per_execution: int
    checkpoint_every: int
    keep_steps: tuple[int, ...] = ()
    attend: str = "sample"
    rematerialise: bool = False
    profile: tuple[int, int] | None = None
    export_every_epochs: int | None = None
    holes: Holes | None = None
    shard_optimizer: bool = False

    def global_batch_size(self, replicas: int) -> int:
        """Samples in one update, over all replicas and accumulated batches."""
        return self.per_replica_batch_size * replicas * self.optimizer.gradient_accumulation_steps

    def validation_batch_size(self, replicas: int) -> int:
        """Samples of the validation split in one pass through the model.

        Accumulated batches go one after another in training, and fit a device only so.
        """
        return self.per_replica_batch_size * replicas

    def order_from(self, step: int, global_batch_size: int) -> BatchOrder:
        """The batches of the training after `step` updates."""
        return BatchOrder(
            seed=self.seed,
            global_batch_size=global_batch_size,
            shuffle_window=self.shuffle_window,
            start_step=step,
            steps=self.steps,
        )

    def step_sizes(self) -> dict:
        """What shapes its step, by the names in preflight.json."""
        return {
            "attend": self.attend,
            "rematerialise": self.rematerialise,
            "shard_optimizer": self.shard_optimizer,
            "model_type": self.model_config.model_type,
            "per_replica_batch_size": self.per_replica_batch_size,
            "gradient_accumulation_steps": self.optimizer.gradient_accumulation_steps,
            "sequence_length": self.plan.sequence_length,
            "vocabulary_size": self.plan.vocabulary_size,
            "slots": self.plan.slots,
        }

    def basis(self) -> dict:
        """The values that a state of the run belongs to, JSON-like.

        Left out are the run's name, where its data lies, and when its state is saved.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("name", "train", "validation", "checkpoint_every", "keep_steps"):
            del values[name]
        # Only where there are some: a state from before there were holes belongs to a run without.
        if (holes := values.pop("holes")) is not None:
            values["holes"] = holes.sha256
        model = json.loads(values.pop("model_config").to_json_string())
        model.pop("transformers_version", None)
        values |= {
            "model": model,
            "initialisation": asdict(self.initialisation),
            "optimizer": asdict(self.optimizer),
            "masking": _plan_basis(values.pop("plan")),
            "validation_masking": _plan_basis(values.pop("validation_plan")),
        }
        # As it comes back from a file: lists for tuples.
        return json.loads(json.dumps(values))


def _plan_basis(plan: MaskingPlan) -> dict:
    starts = plan.word_starts
    return asdict(plan) | {
        "slots": plan.slots,
        "word_starts": None if starts is None else value_sha256([bool(s) for s in starts]),
    }
