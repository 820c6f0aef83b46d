"""The lowering as a job: from a run's settings and files to its StableHLO and what was found."""

import json
import sys

from mlm.accelerators.artefacts import Lowering
from mlm.accelerators.described_steps import ForwardSteps, describe_forward, describe_training
from mlm.accelerators.findings import ERROR, Finding
from mlm.accelerators.lowering import lower, lower_forward, train_step_of
from mlm.accelerators.shape_survey import position_is_restorable, survey_epoch
from mlm.accelerators.tile_sizes import tile_advice
from mlm.config.accelerator import Accelerator
from mlm.config.families import ROBERTA_FAMILY
from mlm.config.run import RunConfiguration
from mlm.foundations.atomic import replacing, write_text
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest
from mlm.tokenizer.encoding import Encoder
from mlm.training.in_tensorflow.devices import open_strategy
from mlm.training.run import Run, RunFiles
from mlm.training.run_inputs import run_of


def lower_run(
    settings: RunConfiguration,
    files: RunFiles,
    program: str,
    summary: str,
    forward: ForwardSteps | None = None,
) -> None:
    """Write the run's step to `program` and what was found on the way to `summary`.

    With `forward`, the steps of validation and evaluation as well, and a look at the data.
    A step that breaks a rule is an answer, not an error: `program` is then an empty file
    if nothing could be lowered.
    """
    # A TPU has bfloat16 if the choice is left to the accelerator.
    precision = settings.accelerator.precision
    precision = "bfloat16" if precision == "auto" else precision
    if settings.engine == "tensorflow":
        # A CPU to trace on, with the precision that the TPU will have.
        open_strategy(Accelerator(kind="cpu", precision=precision))
    findings = _pad_id(settings, files)
    described: dict = {}
    written = False
    try:
        manifests = {split: Manifest.read(path) for split, path in files.manifests.items()}
        run = run_of(settings, files, manifests, replicas=1)
    except MlmError as error:
        if not findings:
            findings.append(Finding("settings", ERROR, str(error)))
    else:
        advice, dimensions = tile_advice(run, precision)
        described |= run.step_sizes() | {
            "model_configuration": json.loads(run.model_config.to_json_string()),
            "dimensions": dimensions,
        }
        if settings.engine == "jax":
            written = True
            described |= describe_training(run, precision, program)
            if forward:
                describe_forward(run, precision, forward)
        else:
            more, found, written = _lowered(run, program, forward)
            described |= more
            findings += found
        findings += advice
        if forward and written:
            described["forward_rows"] = forward.rows(run)
    if not written:
        for path in [
            program,
            *([forward.validation, *forward.evaluation.values()] if forward else []),
        ]:
            write_text(path, "")
    Lowering(
        run=settings.name,
        engine=settings.engine,
        precision=precision,
        lowered=written,
        findings=findings,
        **described,
    ).write(summary)


def _lowered(
    run: Run, program: str, forward: ForwardSteps | None
) -> tuple[dict, list[Finding], bool]:
    """Lower TensorFlow's steps: fields of `Step`, what was found, and whether `program` is
    written."""
    print(f"{run.name}: building the model and tracing its step", file=sys.stderr)
    step = train_step_of(run)
    lowered = lower(step.function, step.signature)
    findings = list(lowered.findings)
    described = {
        "parameters": step.parameters,
        "muon_flops": step.muon_flops,
        "inputs": {k: [list(s.shape), s.dtype.name] for k, s in sorted(step.signature.items())},
    }
    if lowered.program is None:
        return described, findings, False
    with replacing(program) as temporary:
        temporary.write_bytes(lowered.program)
    if forward:
        described["survey"], found = survey_epoch(run, step)
        findings += found + position_is_restorable(run)
        findings += lower_forward(run, step.model, forward)
    return described, findings, True


def _pad_id(settings: RunConfiguration, files: RunFiles) -> list[Finding]:
    """The pad token's id, looked at before the model refuses it in its own words."""
    family, pad = settings.model.family, Encoder.load(files.tokenizer).special_ids.pad
    if family not in ROBERTA_FAMILY or pad == 1:
        return []
    return [
        Finding(
            "pad_id",
            ERROR,
            f"the pad token has id {pad}; {family} in TensorFlow takes id 1 for padding whatever "
            "its configuration says. Give <pad> id 1 in the tokenizer, or choose another family",
        )
    ]


def main() -> None:
    """One lowering in a process of its own: the request is JSON on stdin."""
    request = json.load(sys.stdin)
    lower_run(
        RunConfiguration.of_param(request["settings"]),
        RunFiles(**request["files"]),
        request["program"],
        request["summary"],
    )


if __name__ == "__main__":
    main()
