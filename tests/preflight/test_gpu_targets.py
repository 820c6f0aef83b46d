"""Steps compiled for GPUs, in the environment that has their compiler; no GPU takes part."""

import subprocess
import sys
from pathlib import Path

import pytest

from mlm.accelerators.artefacts import TRAINING, PreflightVerdict
from mlm.accelerators.batch_search import largest_batch
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, compile_for
from mlm.config.chips import GPUS
from mlm.config.targets import memory_of_a_replica
from tests.conftest import not_here, users_environment
from tests.preflight.planted_faults import FAULTS, outcome_with
from tests.preflight.test_tpu_targets import described

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-preflight-gpu" / "bin" / "python"


@pytest.fixture(autouse=True)
def with_gpu_compiler(monkeypatch):
    """`compile_for` starts the Python that has the compiler of GPUs."""
    if not PYTHON.exists():
        not_here("no .venv-preflight-gpu; make it with tests/preflight/make_gpu_environment.sh")
    monkeypatch.setattr(sys, "executable", str(PYTHON))


def test_training_validation_and_evaluation_compile_for_every_gpu(tmp_path):
    for name in GPUS:
        answers = compile_for(name, *described(tmp_path, name).values(), quick=True)
        assert [a.outcome for a in answers] == [COMPILED] * 3, (name, answers)
        training = answers[0]
        assert (training.replicas, training.hosts, training.chips) == (1, 1, 1)
        # Weights and the moments of AdamW, in float32, updated in place.
        assert training.memory.arguments > 2.7 * answers[1].memory.arguments
        assert training.memory.aliased > 0.95 * training.memory.outputs


def test_several_gpus_count_the_flops_of_one(tmp_path):
    (one,), (four,) = (
        compile_for(name, described(tmp_path, name)[TRAINING], quick=True)
        for name in ("h100", "h100:4")
    )
    assert (four.replicas, four.hosts, four.chips) == (4, 1, 4)
    assert four.flops == pytest.approx(one.flops, rel=0.01)


@pytest.mark.parametrize("attend", ["sample", "document"])
def test_cudnns_attention_compiles_and_keeps_no_scores(tmp_path, attend):
    by_cudnn = described(
        tmp_path,
        "h100",
        pretraining={"attend": attend},
        accelerator={"precision": "bfloat16", "deterministic": False},
        model={"config": {"attention_probs_dropout_prob": 0.0}},
    )[TRAINING]
    assert by_cudnn["attention"] == "cudnn"
    by_cudnn["plan"]["sequence_length"] = 1024
    by_cudnn["config"]["max_position_embeddings"] = 1026
    by_xla = by_cudnn | {"attention": "xla"}
    answers = compile_for("h100", by_cudnn, by_xla, quick=True)
    assert [found.outcome for found in answers] == [COMPILED] * 2, answers
    needed, with_scores = (found.memory.temporaries for found in answers)
    assert needed < 0.8 * with_scores
    # For the gradient cuDNN makes the scores again, one product more than six.
    assert answers[1].flops < answers[0].flops < 7 / 6 * answers[1].flops
    # A card before Ampere has XLA's.
    on_t4 = compile_for("t4", by_cudnn, by_xla, quick=True)
    assert on_t4[0].memory == on_t4[1].memory


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_refused(fault):
    outcome, message = outcome_with("rtx4090", fault, PYTHON)
    expected, words = FAULTS[fault]
    assert outcome == expected and words in message, message


def test_the_largest_batch_fits_and_the_next_does_not(tmp_path):
    description = described(tmp_path, "t4")[TRAINING]
    batches = [2**power for power in range(15, 22)]

    def compiled(batch, quick):
        (found,) = compile_for("t4", description | {"samples": batch}, quick=True)
        return found

    largest = largest_batch(batches, compiled, memory_of_a_replica("t4"))
    after = compiled(batches[batches.index(largest) + 1], True)
    assert compiled(largest, True).outcome == COMPILED and after.outcome == NO_MEMORY
    # The memory that it needs is known all the same.
    assert "one replica needs" in after.message
    assert after.memory.peak > memory_of_a_replica("t4")


def test_a_newcomer_learns_which_batch_fits_a_card(tmp_path):
    """The preflight's command in an environment with the compiler of GPUs alone."""
    command = [PYTHON, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--cores", "2"]
    command += ["preflight", "--configfile", ROOT / "presets" / "tiny.yaml", "--config"]
    command += ['preflight={"targets": ["rtx4090"]}', 'pretraining={"engine": "tensorflow"}']
    how = {"cwd": tmp_path, "env": users_environment(), "capture_output": True, "text": True}
    ran = subprocess.run(command, **how)
    assert ran.returncode == 0, ran.stderr[-4000:]
    (target,) = PreflightVerdict.read(tmp_path / "results/runs/base/preflight.json").targets
    assert target.precision == "float32" and target.fits
    assert "JAX engine's program" in ran.stdout and "base: passed" in ran.stdout
    assert (tmp_path / "results/preflight.txt").read_text() in ran.stdout
