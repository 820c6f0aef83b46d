"""A run as it trains: its configuration, and what follows from its data and its devices."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from mlm.config.model import ModelOfRun
from mlm.config.pretraining import Pretraining
from mlm.foundations.digests import value_sha256
from mlm.samples.masking import MaskingPlan
from mlm.samples.stored_batches import BatchOrder, ShardFiles


@dataclass(frozen=True)
class RunFiles:
    """What a run reads: tokenizer.json, with its other files beside it, and the manifests."""

    tokenizer: str
    manifests: dict[str, str]


@dataclass(frozen=True)
class Run:
    """One run, fully determined: everything that its weights depend on except the devices.
    `pretraining` is the section with steps, seed and the lengths of the schedule settled."""

    name: str
    model: ModelOfRun
    pretraining: Pretraining
    plan: MaskingPlan
    validation_plan: MaskingPlan
    train: ShardFiles
    validation: ShardFiles
    #: The transformers configuration; None for who asks which samples the run is shown alone.
    model_config: Any
    replicas: int = 1

    @property
    def steps(self) -> int:
        return self.pretraining.steps

    @property
    def seed(self) -> int:
        return self.pretraining.seed

    @property
    def batch_size(self) -> int:
        """Samples in one update, over all replicas and accumulated batches."""
        return batch_size(self.pretraining, self.replicas)

    @property
    def validation_batch_size(self) -> int:
        """Samples of the validation split in one pass: accumulated batches fit a device one by one
        only."""
        return self.pretraining.per_replica_batch_size * self.replicas

    def order_from(self, step: int) -> BatchOrder:
        """The batches of the training after `step` updates."""
        return BatchOrder(
            seed=self.seed,
            global_batch_size=self.batch_size,
            shuffle_window=self.pretraining.shuffle_window,
            start_step=step,
            steps=self.steps,
        )

    def step_sizes(self) -> dict:
        """What shapes its step, by the names in preflight.json."""
        section = self.pretraining
        return {
            "attend": section.attend,
            "rematerialise": section.rematerialise,
            "model_type": self.model_config.model_type,
            "per_replica_batch_size": section.per_replica_batch_size,
            "gradient_accumulation_steps": section.optimizer.gradient_accumulation_steps,
            "sequence_length": self.plan.sequence_length,
            "vocabulary_size": self.plan.vocabulary_size,
            "slots": self.plan.slots,
        }

    def basis(self) -> dict:
        """The values that a state of the run belongs to, JSON-like, without the run's name and
        where and when its state is saved."""
        saved_anyhow = {"checkpoint", "continue_from", "engine", "epochs", "forget", "tokens"}
        model = json.loads(self.model_config.to_json_string())
        model.pop("transformers_version", None)
        values = self.pretraining.model_dump(exclude=saved_anyhow) | {
            "model": model,
            "initialisation": self.model.initialisation.model_dump(),
            "masking": _plan_basis(self.plan),
            "validation_masking": _plan_basis(self.validation_plan),
        }
        if self.plan.holes is not None:
            values["holes"] = self.plan.holes.sha256
        # As it comes back from a file: lists for tuples.
        return json.loads(json.dumps(values))


def _plan_basis(plan: MaskingPlan) -> dict:
    starts = plan.word_starts
    values = asdict(replace(plan, holes=None)) | {
        "slots": plan.slots,
        "word_starts": None if starts is None else value_sha256([bool(s) for s in starts]),
    }
    del values["holes"]
    return values


def batch_size(section: Pretraining, replicas: int) -> int:
    """Samples in one update of so many replicas."""
    accumulated = section.optimizer.gradient_accumulation_steps
    return section.per_replica_batch_size * replicas * accumulated
