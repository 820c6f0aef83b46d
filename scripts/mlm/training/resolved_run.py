"""A run: its configuration, checked and resolved against its files and number of replicas."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlm.config.model import Model
from mlm.config.pretraining import Optimizer, Recipe, RunConfiguration
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture, model_configuration
from mlm.model.initialisation import Begun, WarmStart, initial_parameters, neighbour_heads
from mlm.model.network import Network, ops_of
from mlm.samples.manifests import Manifest, check_sequence_length, project_root
from mlm.samples.masking import VALIDATION_MASKING, MaskingPlan, masking_plan
from mlm.samples.shard_reading import ShardFiles
from mlm.tokenizer.encoding import Encoder
from mlm.training.devices import Devices
from mlm.training.length_and_phases import TrainingPhase, phases_of, updates_of
from mlm.training.train_step import Computation, Task


@dataclass(frozen=True)
class RunFiles:
    """Paths of tokenizer.json, with its other files beside it, and of each split's manifest."""

    tokenizer: str
    manifests: dict[str, str]


@dataclass(frozen=True)
class Run(Task):
    """One run: everything that its weights depend on except the devices. `pretraining` is the
    section with steps, seed and the lengths of the schedule settled."""

    name: str
    model: Model
    pretraining: Recipe
    plan: MaskingPlan
    validation_plan: MaskingPlan
    train: ShardFiles
    validation: ShardFiles
    #: The transformers configuration; None if `run_of` was called for the samples alone.
    model_config: Any
    replicas: int = 1
    #: None for a run from scratch, or of samples alone.
    warm_start: WarmStart | None = None
    #: Where the configuration has the learning rate.
    section: str = "pretraining.optimizer"

    @property
    def steps(self) -> int:
        return self.pretraining.steps or 0

    @property
    def seed(self) -> int:
        return self.pretraining.seed or 0

    @property
    def optimizer(self) -> Optimizer:
        return self.pretraining.optimizer

    @property
    def log_every(self) -> int:
        return self.pretraining.log_every

    @property
    def validate_every(self) -> int:
        return self.pretraining.validation.every

    def epoch(self, step: int) -> float:
        return sum(rows / phase.train.num_samples for phase, rows in self._rows(step))

    def tokens(self, step: int) -> int:
        return sum(rows * phase.plan.sequence_length for phase, rows in self._rows(step))

    def _rows(self, step: int) -> list[tuple[TrainingPhase, int]]:
        """Each phase, and the rows of it that `step` updates use."""
        begun = [phase for phase in self.phases if phase.first < step]
        return [(p, (min(step, p.end) - p.first) * p.batch_size) for p in begun]

    @cached_property
    def architecture(self) -> Architecture:
        return Architecture.of(self.model_config.to_dict())

    @cached_property
    def phases(self) -> tuple[TrainingPhase, ...]:
        """The parts of the training, one after the other; most runs have one."""
        return phases_of(self.pretraining, self.replicas, self.plan, self.train)

    def computation(self, devices: Devices) -> Computation:
        """Return the network, for these devices, and the loss of masked language modelling."""
        section, ops = self.pretraining, ops_of(devices.framework)
        attention = devices.arithmetic.get("attention", "xla")
        how = devices.precision, attention, section.rematerialise
        network, first = Network(self.architecture, ops, *how), self.model_config.cls_token_id
        return Computation(network, section.attend, first, section.softmax_classes)

    def starting_weights(self) -> tuple[dict[str, np.ndarray], Begun | None]:
        """Return the weights before the first step, and what a warm start gave of them."""
        weights = initial_parameters(self.architecture, self.seed)
        if self.warm_start is not None:
            return self.warm_start.over(weights, self.architecture)
        if self.model.initialisation.attention == "neighbour_heads":
            neighbour_heads(weights, self.architecture, self.seed)
        return weights, None

    @property
    def batch_size(self) -> int:
        """Samples in one update, over all replicas and accumulated batches."""
        return self.pretraining.batch_on(self.replicas).samples

    @property
    def validation_batch_size(self) -> int:
        """Rows in a batch of validation: those of one accumulated part, which fits the devices."""
        return self.phases[-1].batch_size // self.optimizer.gradient_accumulation_steps


def run_of(
    config: RunConfiguration,
    files: RunFiles,
    manifests: dict[str, Manifest],
    replicas: int,
    with_model: bool = True,
    encoder: Encoder | None = None,
) -> Run:
    """Return the run with every setting resolved against its data and the number of replicas; its
    samples alone unless `with_model`. Raises MlmError if train is smaller than an update."""
    section, length = config.pretraining, config.sequence_length
    encoder = encoder or Encoder.load(files.tokenizer)
    batch, samples = section.batch_on(replicas), manifests["train"].num_samples
    for phase in config.phases:
        rows = manifests["train"].in_rows(phase.sequence_length // length).num_samples
        if problem := section.batch_on(replicas, phase).unfilled(rows):
            raise MlmError(f"pretraining: {problem}")
    steps = updates_of(section, samples, length, batch.samples)
    if problem := section.without_step(steps):
        raise MlmError(f"pretraining.{problem}")
    settled = {
        "steps": steps,
        "seed": config.training_seed,
        "optimizer": section.optimizer.scheduled(steps),
    }
    text = encoder, files.tokenizer
    shards = {s: ShardFiles.of(m, project_root(files.manifests[s])) for s, m in manifests.items()}
    model = warm_start = None
    if with_model:
        warm_start = WarmStart.of(config.model, files.tokenizer)
        model = model_configuration(config.model, encoder, config.longest_row)
    return Run(
        name=config.name,
        model=config.model,
        pretraining=section.model_copy(update=settled),
        plan=masking_plan(section.masking, *text, length),
        validation_plan=masking_plan(VALIDATION_MASKING, *text, config.phases[-1].sequence_length),
        train=shards["train"],
        validation=shards["validation"].in_rows(config.last_row_samples),
        model_config=model,
        replicas=replicas,
        warm_start=warm_start,
    )


def read_manifests(files: RunFiles, sequence_length: int) -> dict[str, Manifest]:
    """Return the run's manifests. Raises MlmError unless they fit tokenizer and length."""
    manifests = {split: Manifest.read(path) for split, path in files.manifests.items()}
    tokenizer_sha256 = file_sha256(files.tokenizer)
    for split, manifest in manifests.items():
        if not manifest.num_samples:
            raise MlmError(
                f"{files.manifests[split]}: the {split} split has no samples; at least one is "
                "needed"
            )
        check_sequence_length(manifest, sequence_length)
        if manifest.tokenizer_sha256 not in (None, tokenizer_sha256):
            raise MlmError(
                f"{files.manifests[split]}: its shards were made with another tokenizer "
                f"({manifest.tokenizer_sha256[:12]}…) than {files.tokenizer} "
                f"({tokenizer_sha256[:12]}…). To have them made again: "
                f"rm -r results/shards/{split}, then the same snakemake command"
            )
    return manifests
