from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
import small_run

from mlm.accelerators.artefacts import Lowering, failed
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, compile_for
from mlm.accelerators.lowering import lower_forward, lower_run, train_step_of
from mlm.accelerators.step_sizes import forward_rows
from mlm.config.evaluation import Evaluation

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


def test_a_pad_id_other_than_1_is_an_answer(tmp_path, monkeypatch):
    names = ("cls", "sep", "pad", "unk", "mask")
    monkeypatch.setattr(small_run, "SPECIAL", {n: small_run.SPECIAL[n] for n in names})
    small_run.write_inputs(tmp_path)
    lowering = lower_in_a_process(tmp_path)
    assert not lowering.step.lowered
    assert rules_of(lowering) == {"settings"}
    assert "has id 2" in lowering.findings[0].message
    assert (tmp_path / "train_step.stablehlo").read_bytes() == b""


def test_a_step_without_gradients_that_overflows_the_memory_is_named(tmp_path):
    small_run.write_inputs(tmp_path)
    run, rows = small_run.small_run(tmp_path)[0], 2_500_000
    section = run.pretraining.model_copy(update={"per_replica_batch_size": rows})
    run = replace(run, pretraining=section)
    settings = {"batch_size": 64, "mlm_probability": 0.15, "mask_token": 0.8, "random_token": 0.1}
    asked = Evaluation.of_param(settings)
    programs, findings = lower_forward(run, train_step_of(run).model, asked, [4])
    assert findings == [] and forward_rows(run, asked, [4]).validation == rows
    # However large a batch is asked for, an evaluation's logits have a limit of their own.
    largest = asked.model_copy(update={"batch_size": 10**9})
    assert forward_rows(run, largest, [4]).evaluation == {4: 44739}
    files = [tmp_path / name for name in "ev"]
    for file, program in zip(files, (programs[4], programs["validation"]), strict=True):
        file.write_bytes(program)
    found, overflowing = compile_for("v5e:2x2", *files, quick=True)
    assert (found.outcome, overflowing.outcome) == (COMPILED, NO_MEMORY)
