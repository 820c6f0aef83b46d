"""The lowering as a job: from a run's settings and files to its programs and what was found."""

import json
import sys

from mlm.accelerators.artefacts import ADVICE, ERROR, WARNING, Finding, Lowering, Step
from mlm.accelerators.described_steps import describe_forward, describe_training, forward_rows
from mlm.accelerators.lowering import lower, lower_forward, train_step_of
from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.config.run import RunConfiguration
from mlm.foundations.atomic import replacing, write_text
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest
from mlm.training.in_tensorflow.devices import open_strategy
from mlm.training.run import Run, RunFiles
from mlm.training.run_inputs import run_of


def lower_run(
    settings: RunConfiguration,
    files: RunFiles,
    program: str,
    evaluation: Evaluation | None = None,
    validation_program: str = "",
    evaluation_programs: dict[int, str] | None = None,
) -> Lowering:
    """Write the run's train step to `program`; what was found on the way.

    With section `evaluation`, the steps without gradients as well; those of the evaluation are
    by the number of replicas. A step that breaks a rule is an answer, not an error: programs that
    could not be lowered are empty files.
    """
    # A TPU has bfloat16 if the choice is left to the accelerator.
    precision = settings.accelerator.precision
    precision = "bfloat16" if precision == "auto" else precision
    if settings.engine == "tensorflow":
        # A CPU to trace on, with the precision that the TPU will have.
        open_strategy(Accelerator(kind="cpu", precision=precision))
    forward = validation_program, evaluation_programs or {}
    for path in filter(None, [program, validation_program, *forward[1].values()]):
        write_text(path, "")
    findings: list[Finding] = []
    described: dict = {"engine": settings.engine, "precision": precision, "lowered": False}
    model = None
    try:
        manifests = {split: Manifest.read(path) for split, path in files.manifests.items()}
        run = run_of(settings, files, manifests, replicas=1)
    except MlmError as error:
        findings.append(Finding("settings", ERROR, str(error)))
    else:
        model = json.loads(run.model_config.to_json_string())
        described |= run.step_sizes()
        if settings.engine == "jax":
            described |= describe_training(run, precision, program) | {"lowered": True}
            if evaluation:
                describe_forward(run, precision, evaluation, *forward)
        else:
            step = _lower(run, program, described, findings)
            if evaluation and described["lowered"]:
                findings += lower_forward(run, step.model, evaluation, *forward)
        findings += tile_advice(
            {
                "pretraining.per_replica_batch_size": run.pretraining.per_replica_batch_size,
                "shards.sequence_length": run.plan.sequence_length,
            }
        )
        if evaluation and described["lowered"]:
            described["forward_rows"] = forward_rows(run, evaluation, list(forward[1]))
    return Lowering(settings.name, Step(**described), findings, model)


def _lower(run: Run, program: str, described: dict, findings: list[Finding]):
    """Lower TensorFlow's train step to `program`; adds fields of `Step` and what was found."""
    print(f"{run.name}: building the model and tracing its step", file=sys.stderr)
    step = train_step_of(run)
    content, found = lower(step.function, step.signature)
    with replacing(program) as temporary:
        temporary.write_bytes(content)
    findings += found
    described |= {
        "lowered": bool(content),
        "parameters": step.parameters,
        "muon_flops": step.muon_flops,
    }
    return step


def tile_advice(sizes: dict[str, int]) -> list[Finding]:
    """What padding to the hardware's tiles wastes, for settings such as batch and sequence length.

    A TPU keeps the last two dimensions of an array in tiles of 8 × 128 numbers of 32 bits, and its
    matrix unit multiplies 128 × 128 (Cloud TPU documentation, "Performance guide").
    """
    findings = []
    for name, size in sizes.items():
        for multiple, severity in ((8, WARNING), (128, ADVICE)):
            if waste := -size % multiple / (size + -size % multiple):
                message = (
                    f"{name} is {size}, no multiple of {multiple}: {waste:.0%} of the tiles is "
                    f"padding. Try {size + -size % multiple}"
                )
                findings.append(Finding("tile_sizes", severity, message))
                break
    return findings
