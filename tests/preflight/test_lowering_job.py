"""The lowering of a small run as its rule has it, and steps that do not fit."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
import small_run

from mlm.accelerators.artefacts import Lowering, Target, failed
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, compile_for
from mlm.accelerators.lowering_job import lower_run
from mlm.accelerators.preflight import judge_forward
from mlm.config.evaluation import Evaluation
from mlm.samples.manifests import Manifest

pytestmark = pytest.mark.slow


def lower_in_a_process(root: Path, overrides: dict | None = None) -> Lowering:
    """The lowering of the small run below `root`, in a process of its own as the rule has it."""
    overrides = {"accelerator": {"precision": "auto"}} | (overrides or {})
    job = small_run.small_job(root, overrides=overrides)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(lower_run, *job, str(root / "train_step.stablehlo")).result()


def rules_of(lowering: Lowering) -> set[str]:
    return {finding.rule for finding in failed(lowering.findings)}


def test_the_clean_run_is_lowered_without_a_fault_and_alike_twice(tmp_path):
    small_run.write_inputs(tmp_path)
    first = lower_in_a_process(tmp_path)
    assert first.step.lowered and rules_of(first) == set()
    assert first.step.precision == "bfloat16"
    program = (tmp_path / "train_step.stablehlo").read_bytes()
    assert lower_in_a_process(tmp_path) == first
    assert (tmp_path / "train_step.stablehlo").read_bytes() == program


def test_a_pad_id_other_than_1_is_named_before_the_model_refuses_it(tmp_path, monkeypatch):
    names = ("cls", "sep", "pad", "unk", "mask")
    monkeypatch.setattr(small_run, "SPECIAL", {n: small_run.SPECIAL[n] for n in names})
    small_run.write_inputs(tmp_path)
    lowering = lower_in_a_process(tmp_path)
    assert not lowering.step.lowered
    assert rules_of(lowering) == {"pad_id"}
    assert "has id 2" in lowering.findings[0].message
    assert (tmp_path / "train_step.stablehlo").read_bytes() == b""


def test_settings_that_do_not_fit_the_data_are_an_answer_too(tmp_path):
    small_run.write_inputs(tmp_path)
    batch = {"pretraining": {"per_replica_batch_size": 100_000}}
    lowering = lower_in_a_process(tmp_path, batch)
    assert rules_of(lowering) == {"settings"}
    assert "100000 samples" in lowering.findings[0].message


def run_below(root: Path):
    from mlm.training.run_inputs import run_of

    small_run.write_inputs(root)
    settings, files = small_run.small_job(root)
    manifests = {s: Manifest.read(p) for s, p in files.manifests.items()}
    return run_of(settings, files, manifests, replicas=1)


def lowered_forward(root: Path, section: dict, **overrides):
    """The programs of validation and evaluation on four replicas, and the rows of each."""
    from mlm.accelerators.described_steps import forward_rows
    from mlm.accelerators.lowering import lower_forward, train_step_of
    from mlm.foundations.framework import tf_keras

    run = run_below(root)
    run = replace(run, pretraining=run.pretraining.model_copy(update=overrides))
    paths = {name: str(root / f"{name}.stablehlo") for name in ("validation", "evaluation")}
    asked = Evaluation.of_param(section)
    model, policy = train_step_of(run).model, tf_keras.mixed_precision.global_policy()
    try:
        assert lower_forward(run, model, asked, paths["validation"], {4: paths["evaluation"]}) == []
    finally:
        tf_keras.mixed_precision.set_global_policy(policy)
    return paths, forward_rows(run, asked, [4])


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
    from mlm.evaluation import scoring

    if name == "evaluation":
        # Its logits have a limit of their own, so that only wide models come to the chip's.
        monkeypatch.setattr(scoring, "_LARGEST_LOGITS", 2**36)
        rows = 2**36 // (3 * 500)
    paths, found_rows = lowered_forward(tmp_path, section, per_replica_batch_size=batch)
    told = {"validation": found_rows.validation, "evaluation": found_rows.evaluation[4]}
    assert told[name] == rows
    large, other = paths.pop(name), paths.popitem()[1]
    found, overflowing = compile_for("v5e:2x2", other, large, quick=True)
    assert (found.outcome, overflowing.outcome) == (COMPILED, NO_MEMORY)
    target = Target("v5e:2x2", COMPILED, hbm_per_replica=16 * 2**30)
    report, (fault,) = judge_forward(target, name, rows, overflowing)
    assert report.fits is False
    assert f"{name} of {rows} samples a replica" in fault.message
