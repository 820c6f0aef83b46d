"""The contents of preflight.json; imports nothing of the compiler."""

from dataclasses import dataclass, field

from mlm.foundations.artefacts import Artefact

#: The steps that are compiled.
TRAINING, VALIDATION, EVALUATION = "training", "validation", "evaluation"
LABEL = "compiler and datasheet estimate, not measured"


@dataclass(frozen=True)
class Finding:
    """A problem that stops the run; on one target if it names it."""

    rule: str
    message: str
    target: str = ""

    def __str__(self) -> str:
        return f"{self.target}: {self.message}" if self.target else self.message


@dataclass(frozen=True)
class Memory:
    """Bytes of one replica, by XLA's memory analysis.

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
    message: str
    precision: str
    replicas: int
    hosts: int
    hbm_per_replica: int
    global_batch_size: int
    fits: bool | None = None
    memory: Memory | None = None
    flops_per_step: float | None = None
    bytes_accessed: float | None = None
    estimate: Estimate | None = None
    forward: dict[str, ForwardReport] = field(default_factory=dict)


@dataclass(frozen=True)
class PreflightVerdict(Artefact):
    """The verdict on a run's steps, with `notes` on its figures."""

    run: str
    passed: bool
    label: str
    effort: str
    notes: list[str]
    engine: str
    findings: list[Finding]
    targets: list[Target]
    packages: dict[str, str]
