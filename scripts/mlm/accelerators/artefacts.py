"""What lowering.json, batches.json and preflight.json say.

Imports nothing of the compiler: a training reads preflight.json.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from mlm.accelerators.collectives import Collective
from mlm.accelerators.findings import Finding
from mlm.foundations.typed_artefacts import OPTIONAL, Artefact


@dataclass(frozen=True)
class Dimension:
    """One size of the step, and the share of its tiles that is padding, in [0, 1)."""

    name: str
    size: int
    multiple: int
    waste: float


@dataclass(frozen=True)
class Survey:
    """Batches that were looked at, and the traces that they cause."""

    training_batches: int
    training_shapes: int
    validation_batches: int
    validation_shapes: int
    training_traces: int
    validation_traces: int


@dataclass(frozen=True)
class ForwardRows:
    """Samples that a replica gets in validation, and in evaluation by the number of replicas."""

    validation: int
    evaluation: dict[int, int]


@dataclass(frozen=True, kw_only=True)
class Step:
    """The sizes of a step; None is what is not known, since a fault came before it.

    `inputs` has shape and type by name. `muon_flops` are those of the products of Muon's update,
    left out with adamw. `outputs` and `examples` are those of a fine-tuning.
    """

    precision: str
    #: Of a pretraining, "tensorflow" or "jax".
    engine: str | None = field(default=None, metadata=OPTIONAL)
    lowered: bool | None = field(default=None, metadata=OPTIONAL)
    attend: str | None = field(default=None, metadata=OPTIONAL)
    rematerialise: bool | None = field(default=None, metadata=OPTIONAL)
    shard_optimizer: bool | None = field(default=None, metadata=OPTIONAL)
    model_type: str | None = field(default=None, metadata=OPTIONAL)
    parameters: int | None = field(default=None, metadata=OPTIONAL)
    per_replica_batch_size: int | None = field(default=None, metadata=OPTIONAL)
    gradient_accumulation_steps: int | None = field(default=None, metadata=OPTIONAL)
    sequence_length: int | None = field(default=None, metadata=OPTIONAL)
    vocabulary_size: int | None = field(default=None, metadata=OPTIONAL)
    slots: int | None = field(default=None, metadata=OPTIONAL)
    muon_flops: int | None = field(default=None, metadata=OPTIONAL)
    inputs: dict[str, Any] | None = field(default=None, metadata=OPTIONAL)
    dimensions: list[Dimension] | None = field(default=None, metadata=OPTIONAL)
    survey: Survey | None = field(default=None, metadata=OPTIONAL)
    forward_rows: ForwardRows | None = field(default=None, metadata=OPTIONAL)
    outputs: int | None = field(default=None, metadata=OPTIONAL)
    examples: int | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, kw_only=True)
class Lowering(Step, Artefact):
    """A run's step, and what was found on the way to its StableHLO."""

    run: str
    findings: list[Finding]
    model_configuration: dict[str, Any] | None = field(default=None, metadata=OPTIONAL)

    @property
    def step(self) -> Step:
        """The step alone."""
        return Step(**{f.name: getattr(self, f.name) for f in fields(Step)})


@dataclass(frozen=True)
class Trial:
    """One batch that was compiled: its peak in bytes and FLOPs of one sample, if it fits.

    `quick` as in `compile_for`: the figures are a few in a hundred off.
    """

    batch: int
    fits: bool
    peak: int | None = None
    flops_per_sample: float | None = None
    quick: bool = False


@dataclass
class Search:
    """What a search found; `largest` is 0 where no batch fits.

    `too_large` is the smallest batch found not to fit, None up to the largest candidate.
    `rematerialises_from` is the smallest batch tried whose samples cost more FLOPs than those
    of the cheapest batch.
    """

    largest: int = 0
    too_large: int | None = None
    rematerialises_from: int | None = None
    trials: list[Trial] = field(default_factory=list)


#: By precision, None for a target that the compiler does not know.
Searches = dict[str, Search | None]


@dataclass(frozen=True)
class Batches(Artefact):
    """The largest batches, by target."""

    label: str
    targets: dict[str, Searches]


@dataclass(frozen=True)
class Memory:
    """Bytes of one replica, as the compiler counts them."""

    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    code: int
    peak: int
    allocated: int


@dataclass(frozen=True)
class RunEstimate:
    """Seconds of one step and of a run of `steps`, as `roofline.Estimate` has them."""

    step_seconds: tuple[float, float]
    run_seconds: tuple[float, float]
    bandwidth_seconds: float
    collective_seconds: float
    steps: int
    utilisation: tuple[float, float]
    label: str


@dataclass(frozen=True)
class ForwardReport:
    """What the compiler says of a step without gradients; `fits` is None and `peak` 0 bytes where
    it does not say."""

    rows: int
    outcome: str
    message: str
    fits: bool | None
    peak: int


@dataclass
class Target:
    """What preflight says of one target; `memory` and `estimate` are None where unknown.

    `forward` is what is said of the steps of validation and evaluation, `muon_share` the share
    of `flops_per_step` that are the products of Muon's update, left out with adamw.
    """

    target: str
    outcome: str
    message: str = ""
    replicas: int = 0
    chips: int = 0
    hosts: int = 0
    fits: bool | None = None
    hbm_per_replica: int | None = None
    memory: Memory | None = None
    flops_per_step: float | None = None
    flops_per_run: float | None = None
    muon_share: float | None = field(default=None, metadata=OPTIONAL)
    bytes_accessed: float | None = None
    collectives: list[Collective] = field(default_factory=list)
    global_batch_size: int | None = None
    estimate: RunEstimate | None = None
    largest_batch: Searches | None = None
    forward: dict[str, ForwardReport] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleVerdict:
    """A rule, what it asks, and whether it is kept, broken, advised on, or was not asked."""

    rule: str
    asks: str
    verdict: str


@dataclass(frozen=True)
class PreflightVerdict(Artefact):
    """The verdict on a step: `findings` are those of its targets as well.

    `unseen` names what a compiler cannot see; `chips` are the datasheets' figures, as
    `chips.ChipFacts` has them.
    """

    run: str
    passed: bool
    label: str
    effort: str
    unseen: list[str]
    step: Step
    rules: list[RuleVerdict]
    findings: list[Finding]
    targets: list[Target]
    chips: list[dict[str, Any]]
    packages: dict[str, str]
