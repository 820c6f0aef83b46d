"""Steps compiled for GPUs, in the environment that has their compiler; no GPU takes part."""

import sys
from pathlib import Path

import pytest

from mlm.config.chips import GPUS
from mlm.preflight.compiler import COMPILED, compile_for
from tests.conftest import not_here
from tests.preflight.test_tpu_targets import MODERN, described

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-preflight-gpu" / "bin" / "python"


@pytest.fixture(autouse=True)
def with_gpu_compiler(monkeypatch):
    """`compile_for` starts the Python that has the compiler of GPUs."""
    if not PYTHON.exists():
        not_here("no .venv-preflight-gpu; make it with tests/make_environment.sh preflight-gpu")
    monkeypatch.setattr(sys, "executable", str(PYTHON))
    # What is compiled for a card is not to be compiled quickly.
    monkeypatch.delenv("XLA_FLAGS")


def test_the_train_step_compiles_for_every_gpu(tmp_path):
    for name in (*GPUS, "h100:4"):
        changes = MODERN if ":" in name else {}
        (training,) = compile_for(name, described(tmp_path, name, **changes))
        assert training.outcome == COMPILED, (name, training)
        # Weights and moments are updated in place.
        assert training.memory.aliased > 0.95 * training.memory.outputs


@pytest.mark.parametrize("attend", ["sample", "document"])
def test_cudnns_attention_compiles_and_keeps_no_scores(tmp_path, attend):
    changes = {"pretraining": {"attend": attend}}
    changes["accelerator"] = {"precision": "bfloat16", "deterministic": False}
    changes["model"] = {"config": {"attention_probs_dropout_prob": 0.0}}
    by_cudnn = described(tmp_path, "h100", **changes)
    assert by_cudnn["attention"] == "cudnn"
    by_cudnn["plan"]["sequence_length"] = 1024
    by_cudnn["config"]["max_position_embeddings"] = 1026
    by_xla = by_cudnn | {"attention": "xla"}
    answers = compile_for("h100", by_cudnn, by_xla)
    assert [found.outcome for found in answers] == [COMPILED] * 2, answers
    needed, with_scores = (found.memory.temporaries for found in answers)
    assert needed < 0.8 * with_scores
    # For the gradient cuDNN makes the scores again, one product more than six.
    assert answers[1].flops < answers[0].flops < 7 / 6 * answers[1].flops
    # A card before Ampere has XLA's.
    on_t4 = compile_for("t4", by_cudnn, by_xla)
    assert on_t4[0].memory == on_t4[1].memory
