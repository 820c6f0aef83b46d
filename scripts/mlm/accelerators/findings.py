"""What preflight finds: one named rule, its verdict, and where the fault stands."""

from dataclasses import dataclass

ERROR, WARNING, ADVICE = "error", "warning", "advice"

#: Every rule by name, with what it asks, in the order in which they are shown.
RULES: dict[str, str] = {
    "settings": "the run's settings fit its data, its model and the target",
    "pad_id": "the pad token has the id that the model's family takes for padding",
    "static_control_flow": "no branch or loop of the step depends on data",
    "static_shapes": "no shape in the step depends on data",
    "known_gather_sizes": "gathers and scatters have known sizes",
    "no_float64": "the step has no float64",
    "no_host_ops": "the step runs nothing on the host (Python, printing, strings, files)",
    "lowers_to_xla": "XLA takes every operation of the step",
    "one_compilation": "the first epoch and the validation pass have one shape each",
    "tile_sizes": "batch and sequence length are multiples of 8, better of 128",
    "position_restorable": "the data's position can be restored after an interruption",
    "compiles": "the TPU compiler takes the step for the target",
    "fits": "one replica's memory suffices",
    "full_global_batch": "the train split fills one global batch",
    "shards_for_workers": "every input worker of TensorFlow has a shard of its own",
    "readable_paths": "the target's hosts can read and write the paths of the run",
}


@dataclass(frozen=True)
class Finding:
    """A rule that is broken, or advice. `op` and `source` are empty where there are none.

    `source` is "file:line, in function" of the line that made the operation; `target` is the
    topology that the finding is about, empty where it is about all.
    """

    rule: str
    severity: str
    message: str
    op: str = ""
    source: str = ""
    target: str = ""

    def __post_init__(self):
        if self.rule not in RULES:
            raise ValueError(f"no rule is called {self.rule}")

    def in_words(self) -> str:
        """One line for people."""
        op = f" [{self.op}]" if self.op else ""
        source = f" at {self.source}" if self.source else ""
        target = f"{self.target}: " if self.target else ""
        return f"{self.severity}: {target}{self.rule}: {self.message}{op}{source}"


def failed(findings: list[Finding]) -> list[Finding]:
    """The findings that stop a training."""
    return [f for f in findings if f.severity == ERROR]
