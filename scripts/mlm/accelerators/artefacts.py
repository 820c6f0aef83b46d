"""What lowering.json, batches.json and preflight.json say.

Imports nothing of the compiler: a training reads preflight.json.
"""

from dataclasses import dataclass, field
from typing import Any

from mlm.config.global_batch import GlobalBatch
from mlm.foundations.typed_artefacts import OPTIONAL, Artefact

ERROR, WARNING, ADVICE = "error", "warning", "advice"
#: The steps that are compiled.
TRAINING, VALIDATION, EVALUATION, FINETUNING = "training", "validation", "evaluation", "finetuning"
LABEL = "compiler and datasheet estimate, not measured"
#: The rule of findings that only a TPU has.
TILE_SIZES = "tile_sizes"


@dataclass(frozen=True)
class Finding:
    """A rule that is broken, or advice; `op`, the line that made it and the target if known."""

    rule: str
    severity: str
    message: str
    op: str = ""
    source: str = ""
    target: str = ""

    def in_words(self) -> str:
        op = f" [{self.op}]" if self.op else ""
        source = f" at {self.source}" if self.source else ""
        target = f"{self.target}: " if self.target else ""
        return f"{self.severity}: {target}{self.rule}: {self.message}{op}{source}"


def failed(findings: list[Finding]) -> list[Finding]:
    """The findings that stop a training."""
    return [f for f in findings if f.severity == ERROR]


@dataclass(frozen=True)
class ForwardRows:
    """Samples of a replica in validation, and in evaluation by the number of replicas."""

    validation: int
    evaluation: dict[int, int]


@dataclass(frozen=True, kw_only=True)
class Step:
    """The sizes of a step; None if unknown, since a fault came before it.

    `muon_flops` are those of the products of Muon's update. `outputs` and `examples` are those of
    a fine-tuning.
    """

    precision: str
    #: Of a pretraining, "tensorflow" or "jax".
    engine: str | None = field(default=None, metadata=OPTIONAL)
    lowered: bool | None = field(default=None, metadata=OPTIONAL)
    attend: str | None = field(default=None, metadata=OPTIONAL)
    rematerialise: bool | None = field(default=None, metadata=OPTIONAL)
    model_type: str | None = field(default=None, metadata=OPTIONAL)
    parameters: int | None = field(default=None, metadata=OPTIONAL)
    per_replica_batch_size: int | None = field(default=None, metadata=OPTIONAL)
    gradient_accumulation_steps: int | None = field(default=None, metadata=OPTIONAL)
    sequence_length: int | None = field(default=None, metadata=OPTIONAL)
    vocabulary_size: int | None = field(default=None, metadata=OPTIONAL)
    slots: int | None = field(default=None, metadata=OPTIONAL)
    muon_flops: int | None = field(default=None, metadata=OPTIONAL)
    forward_rows: ForwardRows | None = field(default=None, metadata=OPTIONAL)
    outputs: int | None = field(default=None, metadata=OPTIONAL)
    examples: int | None = field(default=None, metadata=OPTIONAL)

    def batch_on(self, replicas: int) -> GlobalBatch:
        accumulated = self.gradient_accumulation_steps or 1
        return GlobalBatch(self.per_replica_batch_size, replicas, accumulated)


@dataclass(frozen=True)
class Lowering(Artefact):
    """A run's step, and what was found on the way to its program."""

    run: str
    step: Step
    findings: list[Finding]
    model_configuration: dict[str, Any] | None = field(default=None, metadata=OPTIONAL)


#: The largest batch that fits by precision: 0 if none does, None if the compiler cannot answer.
LargestBatch = dict[str, int | None]


@dataclass(frozen=True)
class Batches(Artefact):
    """The largest batches, by target."""

    label: str
    targets: dict[str, LargestBatch]


@dataclass(frozen=True)
class Collective:
    """All operations of one `kind` in a program whose groups have `replicas` replicas.

    `bytes` are those of the whole arrays that are summed up, gathered or divided, on one replica.
    """

    kind: str
    replicas: int
    count: int
    bytes: int


@dataclass(frozen=True)
class Memory:
    """Bytes of one replica, by XLA's `get_compiled_memory_stats`.

    `peak` is the most that is alive at any time, without the program's `code` and with buffers in
    the core's own memory (128 MiB on a v5e); `allocated` is all that is set aside. On a GPU,
    where the temporaries are one allocation, both are the same.
    """

    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    code: int
    peak: int
    allocated: int


@dataclass(frozen=True)
class Estimate:
    """Seconds of one step and of a run of `steps`: (fastest, slowest) of the range.

    `bandwidth_seconds` is the time to move XLA's count of bytes; if it exceeds the fastest time,
    the memory may bound the step. `collective_seconds` is that of sending between chips with all
    links at their full rate in one direction.
    """

    step_seconds: tuple[float, float]
    run_seconds: tuple[float, float]
    bandwidth_seconds: float
    collective_seconds: float
    steps: int
    utilisation: tuple[float, float]
    label: str = LABEL


@dataclass(frozen=True)
class ForwardReport:
    """The compiler's answer for a step without gradients; `fits` is None if there is none."""

    rows: int
    outcome: str
    message: str
    fits: bool | None
    peak: int


@dataclass
class Target:
    """Preflight's answer for one target; None if unknown.

    `forward` has the steps of validation and evaluation, `muon_share` is the share of
    `flops_per_step` that are the products of Muon's update.
    """

    target: str
    outcome: str
    message: str = ""
    replicas: int = 0
    chips: int = 0
    hosts: int = 0
    precision: str | None = field(default=None, metadata=OPTIONAL)
    fits: bool | None = None
    hbm_per_replica: int | None = None
    memory: Memory | None = None
    flops_per_step: float | None = None
    flops_per_run: float | None = None
    muon_share: float | None = field(default=None, metadata=OPTIONAL)
    bytes_accessed: float | None = None
    collectives: list[Collective] = field(default_factory=list)
    global_batch_size: int | None = None
    estimate: Estimate | None = None
    largest_batch: LargestBatch | None = None
    forward: dict[str, ForwardReport] = field(default_factory=dict)


@dataclass(frozen=True)
class PreflightVerdict(Artefact):
    """The verdict on a step: `findings` are those of its targets as well, `unseen` is what no
    compiler sees, and `chips` are the datasheets' figures as in `chips.ChipFacts`."""

    run: str
    passed: bool
    label: str
    effort: str
    unseen: list[str]
    step: Step
    findings: list[Finding]
    targets: list[Target]
    chips: list[dict[str, Any]]
    packages: dict[str, str]
