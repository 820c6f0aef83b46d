"""Sections `accelerator` and `preflight`: the device, and what its compiler is asked ahead."""

from typing import Annotated, Literal

from pydantic import Field

from mlm.config.chips import target_problem
from mlm.config.fields import Count, Section, Text, Threads, named_twice, section

#: Samples that are worth a lane of their own: with fewer, its matrices are too small to gain.
LEAST_IN_LANE = 16

_Utilisation = Annotated[float, Field(gt=0, le=1)]


class Tpu(Section):
    name: Text = Field(
        "local",
        description="local on a TPU VM; else the name, zone and project of a TPU node.",
    )
    zone: str | None = None
    project: str | None = None


class Accelerator(Section):
    kind: Literal["auto", "cpu", "gpu", "tpu"] = Field(
        "auto",
        description="auto, cpu, gpu or tpu. auto: the TPU of this machine, else the GPUs that"
        " the framework sees, else the CPU.",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="bfloat16 (weights, moments, norms, softmax and loss stay float32), float32, or"
        " auto: bfloat16 on TPUs and, where TensorFlow trains, on processors that have instructions"
        " for it, float32 elsewhere. It is part of the result.",
    )
    cpu_threads: Threads = Field(
        2,
        description="Threads of a CPU's arithmetic. They shape the rounding, and with it the"
        " trained weights, so they are never taken from --cores. Where TensorFlow trains, each"
        " computes a part of the batch, as long as parts have 16 samples or more.",
    )
    virtual_replicas: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None,
        description="Rehearse this many replicas on logical CPU devices, in each process; null: as"
        " many as there are devices.",
    )
    processes: Annotated[int, Field(ge=1, le=65_536)] | None = Field(
        None,
        description="Processes that train a run together, each with its own devices, as on the"
        " hosts of a TPU slice (engine: jax); null: one; with start: hosts, one on each"
        " host. docs/cluster.md says how.",
    )
    start: Literal["here", "srun", "hosts"] = Field(
        "here",
        description="Who starts them: here, the job itself on its machine; srun, the job through"
        " Slurm, as tasks on its nodes; hosts: this same command is started on every host, and each"
        " is one of the processes.",
    )
    join_seconds: Annotated[int, Field(ge=1, le=604_800)] = Field(
        300, description="How many seconds a process waits for the others to come."
    )
    continue_on_other_devices: bool = Field(
        False,
        description="Go on from a state that was saved on another number of devices or processes"
        " (engine: jax). From there on the rounding is that of the new ones, and training.json,"
        " report and model card say so. Without it such a state is refused.",
    )
    deterministic: bool = Field(
        True,
        description="On a GPU, only kernels that give the same bits every time; a CPU and a TPU"
        " always do. false: pretraining.engine: jax takes the fastest, and two runs may end in"
        " different weights. It is part of the result. What it costs was not measured. TensorFlow"
        " and evaluations are always deterministic.",
    )
    tpu: Tpu = section(Tpu)

    def lanes(self, batch: int) -> int:
        """Equal parts of `batch` samples that a CPU computes at the same time in TensorFlow.

        At the default's size half of a batch on each of two threads takes three quarters of the
        time of one operation after the other on both: dividing small matrices costs much of what
        it gains, and many operations cannot be divided. Logical devices have a thread each anyway.
        """
        if self.virtual_replicas:
            return 1
        most = max(1, min(self.cpu_threads, batch // LEAST_IN_LANE))
        return max(lanes for lanes in range(1, most + 1) if batch % lanes == 0)

    @property
    def together(self) -> bool:
        """Whether several processes train."""
        return self.several() is not None

    def several(self) -> str | None:
        """What asks for several processes, in words."""
        if self.start == "hosts":
            return "accelerator.start: hosts"
        many = self.processes is not None and self.processes > 1
        return f"accelerator.processes: {self.processes}" if many else None

    def contradictions(self) -> list[str]:
        if not self.virtual_replicas or self.kind != "gpu":
            return []
        return [
            "accelerator: virtual_replicas are logical CPU devices; set kind to cpu, or to tpu for "
            "a rehearsal, and not to gpu"
        ]


class Utilisation(Section):
    low: _Utilisation = 0.2
    high: _Utilisation = 0.6


class Preflight(Section):
    enabled: bool = Field(
        False,
        description="Make the preflight with everything else and show it in the report. Where"
        " accelerator.kind is tpu it is made and shown in any case, if it is required.",
    )
    required: bool = Field(
        True,
        description="Train on a TPU only after a passed preflight. With accelerator.kind: tpu it is"
        " made first; where auto comes to a TPU, one that passed for the same step has to be"
        " there.",
    )
    targets: Annotated[list[Text], Field(min_length=1)] = Field(
        ["v3:2x2", "v4:2x2x1", "v5e:2x2", "v6e:2x2"],
        description="Topologies to compile for, each a generation (v3, v4, v5e, v5p, v6e) and a"
        " grid of chips, of one host or of many, as v5e:16x16.",
    )
    effort: Literal["auto", "quick", "full"] = Field(
        "auto",
        description="full: compile as for a training. quick: with the least effort on fast code, in"
        " about a quarter of the time and half of the memory; sizes and FLOPs differ by a few in a"
        " hundred. auto: quick for large models, and for the steps of validation and evaluation.",
    )
    find_batch: bool = Field(
        False,
        description="Search for the largest per-replica batch that fits each target, in float32 and"
        " bfloat16, up to largest_batch. Compiles many times.",
    )
    largest_batch: Annotated[int, Field(ge=1, le=65_536)] = 1024
    utilisation: Utilisation = section(Utilisation)
    epoch_batches: Count | None = Field(
        None,
        description="Batches of the first epoch, and of the validation pass, whose shapes are"
        " looked at; null: all.",
    )

    def contradictions(self) -> list[str]:
        problems = named_twice("preflight.targets", self.targets)
        low, high = self.utilisation.low, self.utilisation.high
        if low > high:
            problems.append(f"preflight.utilisation: low {low} is above high {high}")
        wrong = (target_problem(target) for target in self.targets)
        return problems + [f"preflight.targets: {problem}" for problem in wrong if problem]
