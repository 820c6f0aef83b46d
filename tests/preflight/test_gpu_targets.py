"""Steps compiled for GPUs, in the environment that has their compiler; no GPU takes part."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import small_run

from mlm.accelerators.artefacts import FINETUNING, PreflightVerdict
from mlm.accelerators.batch_search import largest_batch
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, REFUSED, compile_for
from mlm.accelerators.described_steps import ONLY_CUDNN
from mlm.accelerators.lowering import lower_run
from mlm.accelerators.verdict_table import table
from mlm.config.chips import GPUS
from mlm.config.evaluation import Evaluation
from mlm.config.targets import memory_of_a_replica
from tests.conftest import not_here, users_environment
from tests.preflight.test_compiler_figures import CONFIG, SECTION

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-preflight-gpu" / "bin" / "python"


@pytest.fixture
def with_gpu_compiler(monkeypatch):
    """`compile_for` starts the Python that has the compiler of GPUs."""
    if not PYTHON.exists():
        not_here("no .venv-preflight-gpu; make it with tests/preflight/make_gpu_environment.sh")
    monkeypatch.setattr(sys, "executable", str(PYTHON))


def lowered(tmp_path, **changes):
    """The lowering of a small run in JAX, and the files of its three steps."""
    small_run.write_inputs(tmp_path)
    changes = {"pretraining": {"engine": "jax"}, "accelerator": {"precision": "bfloat16"}} | changes
    settings, files = small_run.small_job(tmp_path, overrides=changes)
    section = {"batch_size": 16, "mlm_probability": 0.15, "mask_token": 1.0, "random_token": 0.0}
    programs = [str(tmp_path / name) for name in ("t", "v", "e")]
    program, validation, evaluation = programs
    section = Evaluation.of_param(section)
    return lower_run(settings, files, program, section, validation, {1: evaluation}), programs


def test_training_validation_and_evaluation_compile_for_every_gpu(tmp_path, with_gpu_compiler):
    lowering, programs = lowered(tmp_path)
    for name in GPUS:
        answers = compile_for(name, *programs, quick=True)
        assert [a.outcome for a in answers] == [COMPILED] * 3, (name, answers)
        found = answers[0]
        assert (found.replicas, found.hosts, found.chips, found.collectives) == (1, 1, 1, [])
        # Weights and the moments, in float32, updated in place.
        assert found.memory.arguments > 8 * lowering.step.parameters
        assert found.memory.aliased > 0.95 * found.memory.outputs


def test_several_gpus_sum_the_gradients_and_count_the_flops_of_one(tmp_path, with_gpu_compiler):
    lowering, (program, *_) = lowered(tmp_path)
    (one,), (four,) = (compile_for(name, program, quick=True) for name in ("h100", "h100:4"))
    assert (four.replicas, four.hosts, four.chips) == (4, 1, 4)
    assert {(c.kind, c.replicas) for c in four.collectives} == {("all-reduce", 4)}
    gradients = sum(c.bytes for c in four.collectives)
    assert gradients == pytest.approx(4 * lowering.step.parameters, rel=0.02)
    assert four.flops == pytest.approx(one.flops, rel=0.01)


def test_the_step_of_a_fine_tuning_compiles(with_gpu_compiler):
    step = {"step": FINETUNING, "config": CONFIG, "section": SECTION, "outputs": 1}
    (found,) = compile_for("rtx4090", step | {"precision": "bfloat16"}, quick=True)
    assert found.outcome == COMPILED, found.message
    assert found.memory.arguments > 3 * 4 * 1000 * 64


def test_an_explicit_cudnn_is_asked_for_alone(tmp_path):
    cudnn = {"precision": "bfloat16", "deterministic": False, "attention": "cudnn"}
    changes = {"model": {"config": {"attention_probs_dropout_prob": 0.0}}, "accelerator": cudnn}
    _, (program, *_) = lowered(tmp_path, **changes)
    assert json.loads(Path(program).read_text())["attention_on_gpu"] == ONLY_CUDNN


@pytest.mark.parametrize("attend", ["sample", "document"])
def test_cudnns_attention_compiles_and_keeps_no_scores(tmp_path, with_gpu_compiler, attend):
    fast = {"precision": "bfloat16", "deterministic": False}
    changes = {"pretraining": {"engine": "jax", "attend": attend}, "accelerator": fast}
    changes["model"] = {"config": {"attention_probs_dropout_prob": 0.0}}
    _, (program, *_) = lowered(tmp_path, **changes)
    by_cudnn = json.loads(Path(program).read_text())
    assert by_cudnn["attention_on_gpu"] == "cudnn"
    by_cudnn["plan"]["sequence_length"] = 1024
    by_cudnn["config"]["max_position_embeddings"] = 1026
    by_xla = by_cudnn | {"attention_on_gpu": "xla"}
    answers = compile_for("h100", by_cudnn, by_xla, quick=True)
    assert [found.outcome for found in answers] == [COMPILED] * 2, answers
    needed, with_scores = (found.memory.temporaries for found in answers)
    assert needed < 0.8 * with_scores
    # For the gradient cuDNN makes the scores again, one product more than six.
    assert answers[1].flops < answers[0].flops < 7 / 6 * answers[1].flops
    # It takes no card before Ampere.
    on_t4 = compile_for("t4", by_cudnn, by_xla, quick=True)
    assert on_t4[0].memory == on_t4[1].memory
    (refused,) = compile_for("t4", by_cudnn | {"attention_on_gpu": ONLY_CUDNN}, quick=True)
    assert refused.outcome == REFUSED and "needs an Ampere card" in refused.message


@pytest.mark.parametrize(
    ("fault", "outcome", "said"),
    [
        ("clean", COMPILED, ""),
        ("shape_by_data", REFUSED, "must be statically specified"),
        ("host_callback", REFUSED, "calls Python on the host"),
        ("float64", REFUSED, "computes in float64"),
        ("too_large", NO_MEMORY, "21.24 GiB of the card's 23.60 GiB"),
    ],
)
def test_a_planted_fault_is_found(with_gpu_compiler, fault, outcome, said):
    script = Path(__file__).with_name("planted_faults.py")
    ran = subprocess.run(
        [PYTHON, script, "rtx4090", fault], check=True, capture_output=True, text=True
    )
    found, message = json.loads(ran.stdout.splitlines()[-1])
    assert found == outcome and said in message, message


def test_a_table_too_wide_and_a_batch_too_large_are_named(tmp_path, with_gpu_compiler):
    _, (program, *_) = lowered(tmp_path)
    description = json.loads(Path(program).read_text())
    description["config"]["vocab_size"] = description["plan"]["vocabulary_size"] = 100_000_000
    (wide,) = compile_for("t4", description, quick=True)
    assert wide.outcome == NO_MEMORY and "one replica needs" in wide.message
    # What it needs is known all the same.
    assert wide.memory.peak > memory_of_a_replica("t4")


def test_the_largest_batch_fits_and_the_next_does_not(tmp_path, with_gpu_compiler):
    _, (program, *_) = lowered(tmp_path)
    description = json.loads(Path(program).read_text())
    batches = [2**power for power in range(15, 22)]

    def compiled(batch, quick):
        (found,) = compile_for("t4", description | {"samples": batch}, quick=True)
        return found

    largest = largest_batch(batches, compiled, memory_of_a_replica("t4"))
    after = batches[batches.index(largest) + 1]
    assert [compiled(b, True).outcome for b in (largest, after)] == [COMPILED, NO_MEMORY]


def test_a_newcomer_learns_which_batch_fits_a_card(tmp_path, with_gpu_compiler):
    """The preflight's command in an environment with the compiler of GPUs alone."""
    wanted = {"targets": ["rtx4090"], "prices": {"rtx4090": 0.5}, "effort": "quick"}
    command = [PYTHON, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--cores", "2"]
    command += ["preflight", "--configfile", ROOT / "presets" / "tiny.yaml", "--config"]
    for engine, verdict in (("jax", "fits"), ("tensorflow", "not compiled")):
        changes = [f"preflight={json.dumps(wanted)}", f'pretraining={{"engine": "{engine}"}}']
        ran = subprocess.run(
            [*command, *changes],
            **{"cwd": tmp_path, "env": users_environment(), "capture_output": True, "text": True},
        )
        assert ran.returncode == 0, ran.stderr[-4000:]
        report = PreflightVerdict.read(tmp_path / "results/runs/base/preflight.json")
        (target,) = report.targets
        assert target.precision == "float32"
        row = next(
            line
            for line in table(report, wanted["prices"]).splitlines()
            if line.startswith("rtx4090")
        )
        assert verdict in row and row in (tmp_path / "results/preflight.txt").read_text()
    assert "With pretraining.engine: jax the preflight tells" in ran.stdout
