"""docs/using-the-model.md, in an environment without this project's packages."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from in_pytorch import python_of_pytorch, run_in_pytorch

sys.path.append(str(Path(__file__).parents[1] / "training"))
from small_run import LENGTH, run_child, write_inputs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"^```(\w+)\n(.*?)^```", (ROOT / "docs" / "using-the-model.md").read_text(), re.M | re.S
)
MODEL = "results/runs/base/model"


def trained(place: Path, family: str) -> Path:
    """`place` with a trained model where the page has it, and what the page refers to."""
    write_inputs(place)
    overrides = {"model": {"family": family}, "pretraining": {"steps": 3}}
    assert run_child(place, "base", overrides) == 0, (place / "base.stderr").read_text()
    (place / "results").mkdir()
    (place / "runs").rename(place / "results" / "runs")
    (place / "scripts").symlink_to(ROOT / "scripts")
    return place


def in_place(place: Path, *command) -> str:
    done = subprocess.run(
        [python_of_pytorch(), *command], cwd=place, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def agrees(place: Path) -> None:
    """sentence-transformers and model.onnx compute what PyTorch computes of the model."""
    texts = ("w7", "w9[MASK]w30")
    found = json.loads(
        run_in_pytorch("opened_model.py", place / MODEL, place / "model.onnx", *texts)
    )
    assert found["longest"] == LENGTH
    assert found["vectors"] < 1e-5 and found["logits"] < 1e-4


def test_every_block_of_the_page_runs_and_agrees_with_pytorch(tmp_path):
    place = trained(tmp_path, "roberta-prelayernorm")
    assert [language for language, _ in BLOCKS] == ["python"] * 3 + ["bash", "python"]
    *opened, (_, command), (_, used) = BLOCKS
    # In one process, which imports once.
    told = in_place(place, "-c", "\n".join(block for _, block in opened))
    assert "torch.Size([2, " in told and "tensor([[1.0000, " in told
    in_place(place, *command.split()[1:])
    assert len(in_place(place, "-c", used).splitlines()) == 5
    agrees(place)


def test_modernbert_is_opened_and_turned_to_onnx_too(tmp_path):
    place = trained(tmp_path, "modernbert")
    in_place(place, "scripts/to_onnx.py", MODEL, "model.onnx")
    agrees(place)


def test_a_directory_without_a_model_is_refused(tmp_path):
    script = ROOT / "scripts" / "to_onnx.py"
    command = [sys.executable, script, tmp_path, tmp_path / "model.onnx"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "model.safetensors not found" in done.stderr
    assert list(tmp_path.iterdir()) == []
