"""The contents of preflight.json; imports nothing of the compiler."""

from dataclasses import dataclass, field

from mlm.config.pretraining import GlobalBatch
from mlm.foundations.artefacts import OPTIONAL, Artefact

ERROR, WARNING = "error", "warning"
#: The steps that are compiled.
TRAINING, VALIDATION, EVALUATION = "training", "validation", "evaluation"
LABEL = "compiler and datasheet estimate, not measured"


@dataclass(frozen=True)
class Finding:
    """A problem of the run; of one target if it names it."""

    rule: str
    severity: str
    message: str
    target: str = ""

    def in_words(self) -> str:
        target = f"{self.target}: " if self.target else ""
        return f"{self.severity}: {target}{self.rule}: {self.message}"


def failed(findings: list[Finding]) -> list[Finding]:
    """The findings that stop a training."""
    return [f for f in findings if f.severity == ERROR]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What of the settings decides a train step on any number of replicas."""

    precision: str
    engine: str
    per_replica_batch_size: int
    gradient_accumulation_steps: int = 1

    def batch_on(self, replicas: int) -> GlobalBatch:
        return GlobalBatch(self.per_replica_batch_size, replicas, self.gradient_accumulation_steps)


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
    """Seconds of one step and of a run of `steps`. `bound` is "arithmetic", or "memory" if the
    times are those of moving the data, than which no step is faster."""

    step_seconds: float
    run_seconds: float
    steps: int
    utilisation: float
    bound: str


@dataclass(frozen=True)
class ForwardReport:
    """The compiler's answer for a step without gradients; `fits` is None if there is none."""

    rows: int
    outcome: str
    fits: bool | None
    peak: int


@dataclass
class Target:
    """Preflight's answer for one target (None: unknown); `forward` is validation and evaluation."""

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
    bytes_accessed: float | None = None
    global_batch_size: int | None = None
    estimate: Estimate | None = None
    forward: dict[str, ForwardReport] = field(default_factory=dict)


@dataclass(frozen=True)
class PreflightVerdict(Artefact):
    """The verdict on a run's steps; `notes` explain figures, `unseen` is what no compiler sees."""

    run: str
    passed: bool
    label: str
    effort: str
    notes: list[str]
    unseen: list[str]
    step: Step
    findings: list[Finding]
    targets: list[Target]
    packages: dict[str, str]
