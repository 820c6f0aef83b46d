"""Faults planted in the step of a real model, through the lowering as the rule runs it."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import small_run

from mlm.samples.manifests import Manifest

pytestmark = pytest.mark.slow
SCRIPTS = Path(__file__).parents[2] / "scripts"


def lower_in_a_process(root: Path, overrides: dict | None = None) -> dict:
    """The summary of `python -m mlm.accelerators.lowering_job` for the small run below `root`."""
    overrides = {"accelerator": {"precision": "auto"}} | (overrides or {})
    settings, files = small_run.small_job(root, overrides=overrides)
    request = {
        "settings": settings.model_dump(),
        "files": asdict(files),
        "program": str(root / "train_step.stablehlo"),
        "summary": str(root / "lowering.json"),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "mlm.accelerators.lowering_job"],
        input=json.dumps(request),
        env={"PYTHONPATH": str(SCRIPTS), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads((root / "lowering.json").read_text())


def rules_of(summary: dict) -> set[str]:
    return {f["rule"] for f in summary["findings"] if f["severity"] == "error"}


def test_the_clean_run_is_lowered_without_a_fault_and_alike_twice(tmp_path):
    small_run.write_inputs(tmp_path)
    first = lower_in_a_process(tmp_path)
    assert first["lowered"] and rules_of(first) == set()
    assert first["precision"] == "bfloat16"
    program = (tmp_path / "train_step.stablehlo").read_bytes()
    assert lower_in_a_process(tmp_path) == first
    assert (tmp_path / "train_step.stablehlo").read_bytes() == program


def test_a_pad_id_other_than_1_is_named_before_the_model_refuses_it(tmp_path, monkeypatch):
    names = ("cls", "sep", "pad", "unk", "mask")
    monkeypatch.setattr(small_run, "SPECIAL", {n: small_run.SPECIAL[n] for n in names})
    small_run.write_inputs(tmp_path)
    summary = lower_in_a_process(tmp_path)
    assert not summary["lowered"]
    assert rules_of(summary) == {"pad_id"}
    assert "has id 2" in summary["findings"][0]["message"]
    assert (tmp_path / "train_step.stablehlo").read_bytes() == b""


def test_settings_that_do_not_fit_the_data_are_an_answer_too(tmp_path):
    small_run.write_inputs(tmp_path)
    batch = {"pretraining": {"per_replica_batch_size": 100_000}}
    summary = lower_in_a_process(tmp_path, batch)
    assert rules_of(summary) == {"settings"}
    assert "100000 samples" in summary["findings"][0]["message"]


def faults():
    from mlm.foundations.framework import tf

    def dynamic(batch):
        tf.print(tf.shape(batch["input_ids"][batch["input_ids"] > 4]))

    return {
        "unique": (lambda b: tf.unique(b["labels"][0]), "static_shapes"),
        "branch": (
            lambda b: tf.cond(b["weights"][0, 0] > 0, lambda: 1.0, lambda: 2.0),
            "static_control_flow",
        ),
        "boolean mask": (
            lambda b: tf.boolean_mask(b["labels"], b["weights"] > 0),
            "static_shapes",
        ),
        "py_function": (
            lambda b: tf.py_function(np.sum, [b["weights"]], tf.float32),
            "no_host_ops",
        ),
        "print": (lambda b: tf.print(b["weights"][0, 0]), "no_host_ops"),
        "float64": (
            lambda b: tf.cast(b["weights"], tf.float64) * tf.constant(2.0, tf.float64),
            "no_float64",
        ),
        "dynamic shape": (dynamic, "static_shapes"),
    }


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    from mlm.accelerators.lowering import train_step_of
    from mlm.training.run_inputs import run_of

    root = tmp_path_factory.mktemp("run")
    small_run.write_inputs(root)
    settings, files = small_run.small_job(root)
    manifests = {s: Manifest.read(p) for s, p in files.manifests.items()}
    return train_step_of(run_of(settings, files, manifests, replicas=1))


@pytest.mark.parametrize("name", faults())
def test_a_fault_in_the_step_of_a_real_model_is_named(step, name):
    from mlm.accelerators.lowering import lower

    fault, rule = faults()[name]

    def faulty(batch):
        found = fault(batch)
        result = step.function(batch)
        if found is not None and not hasattr(found, "node_def"):
            result["fault"] = found
        return result

    found = lower(faulty, step.signature).findings
    named = [f for f in found if f.rule == rule]
    assert named and "test_planted_faults.py" in named[0].source


def test_the_step_without_a_fault_passes(step):
    from mlm.accelerators.lowering import lower

    lowered = lower(step.function, step.signature)
    assert lowered.findings == () and lowered.program


def lowered_forward(root: Path, section: dict, **overrides):
    """The programs of validation and evaluation on four replicas, and the rows of each."""
    from dataclasses import replace

    from mlm.accelerators.described_steps import ForwardSteps
    from mlm.accelerators.lowering import lower_forward, train_step_of
    from mlm.config.evaluation import Evaluation
    from mlm.foundations.framework import tf_keras
    from mlm.training.run_inputs import run_of

    small_run.write_inputs(root)
    settings, files = small_run.small_job(root)
    manifests = {s: Manifest.read(p) for s, p in files.manifests.items()}
    run = run_of(settings, files, manifests, replicas=1)
    run = replace(run, pretraining=run.pretraining.model_copy(update=overrides))
    paths = {name: str(root / f"{name}.stablehlo") for name in ("validation", "evaluation")}
    steps = ForwardSteps(
        Evaluation.of_param(section), paths["validation"], {4: paths["evaluation"]}
    )
    policy = tf_keras.mixed_precision.global_policy()
    try:
        findings = lower_forward(run, train_step_of(run).model, steps)
    finally:
        tf_keras.mixed_precision.set_global_policy(policy)
    assert findings == []
    return paths, steps.rows(run)


EVALUATION = {"batch_size": 64, "mlm_probability": 0.15, "mask_token": 0.8, "random_token": 0.1}


@pytest.mark.parametrize(
    ("name", "batch", "section", "rows"),
    [
        ("validation", 2_500_000, EVALUATION, 2_500_000),
        ("evaluation", 8, EVALUATION | {"batch_size": 10**9}, 44739),
    ],
)
def test_a_step_without_gradients_that_overflows_the_memory_is_named(
    tmp_path, monkeypatch, name, batch, section, rows
):
    from mlm.accelerators.compiler import COMPILED, NO_MEMORY, compile_for
    from mlm.accelerators.forward_checks import ForwardProgram, judge_forward
    from mlm.evaluation import scoring

    if name == "evaluation":
        # Its logits have a limit of their own, so that only wide models come to the chip's.
        monkeypatch.setattr(scoring, "_LARGEST_LOGITS", 2**36)
        rows = 2**36 // (3 * 500)
    paths, found_rows = lowered_forward(tmp_path, section, per_replica_batch_size=batch)
    told = {"validation": found_rows.validation, "evaluation": found_rows.evaluation[4]}
    assert told[name] == rows
    large, other = paths.pop(name), paths.popitem()[1]
    found = compile_for("v5e:2x2", other, quick=True, others=[large])
    assert (found.outcome, found.others[0].outcome) == (COMPILED, NO_MEMORY)
    program = ForwardProgram(name, large, rows)
    report, (fault,) = judge_forward("v5e:2x2", program, found.others[0], 16 * 2**30)
    assert report.fits is False
    assert f"{name} of {rows} samples a replica" in fault.message


def test_a_batch_that_overflows_the_memory_is_named(step, tmp_path):
    from mlm.accelerators.compiler import NO_MEMORY, compile_for
    from mlm.accelerators.lowering import lower
    from mlm.foundations.framework import tf

    def large(batch):
        # Products that a batch of many more samples would make.
        wide = tf.random.stateless_normal([200_000, 50_000], seed=[1, 2])
        found = tf.linalg.matmul(wide, tf.sin(wide), transpose_b=True)
        return step.function(batch) | {"large": found}

    program = tmp_path / "large.stablehlo"
    program.write_bytes(lower(large, step.signature).program)
    found = compile_for("v5e:2x2", program)
    assert found.outcome == NO_MEMORY
