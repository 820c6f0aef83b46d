"""docs/using-the-model.md, in an environment without this project's packages."""

import json
import re
import sys
from pathlib import Path

import pytest
from in_pytorch import python_of, run_in
from small_run import LENGTH, run_child, write_inputs
from tests.conftest import ended, users_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and code of the fenced blocks of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)


BLOCKS = blocks((ROOT / "docs" / "using-the-model.md").read_text())
MODEL = "results/runs/base/model"


def trained(place: Path, family: str) -> Path:
    """`place` with a trained model where the page has it, and what the page refers to."""
    write_inputs(place)
    model = {"family": family, "initialisation": {"attention": "standard"}}
    overrides = {"model": model, "pretraining": {"steps": 3}}
    assert run_child(place, "base", overrides) == 0, (place / "base.stderr").read_text()
    (place / "results").mkdir()
    (place / "runs").rename(place / "results" / "runs")
    (place / "scripts").symlink_to(ROOT / "scripts")
    return place


def in_place(place: Path, *command) -> str:
    return ended(python_of("pytorch"), *command, cwd=place, env=users_environment()).stdout


def agrees(place: Path) -> None:
    """sentence-transformers and model.onnx compute what PyTorch computes of the model."""
    texts = ("w7", "w9[MASK]w30")
    models = place / MODEL, place / "model.onnx"
    found = json.loads(run_in("pytorch", "opened_model.py", *models, *texts))
    assert found["longest"] == LENGTH
    assert found["vectors"] < 1e-5 and found["logits"] < 1e-4


@pytest.mark.parametrize("family", ["roberta-prelayernorm", "modernbert"])
def test_every_block_of_the_page_runs_and_agrees_with_pytorch(tmp_path, family):
    place = trained(tmp_path, family)
    # The last, of predict.py, is for a model that was fine-tuned (test_finetuning).
    *blocks, (console, _) = BLOCKS
    assert console == "console" and [language for language, _ in blocks] == ["python"] * 6
    filled, (_, own), *opened, (_, exported), (_, used) = blocks
    answers = ended(sys.executable, "-c", own, cwd=place).stdout.splitlines()
    assert len(answers) == 5
    # As PyTorch answers.
    opened.insert(0, filled)
    # In one process, which imports once.
    told = in_place(place, "-c", "\n".join(block for _, block in opened))
    assert "torch.Size([2, " in told and "tensor([[1." in told
    in_place(place, "-c", exported)
    assert len(in_place(place, "-c", used).splitlines()) == 5
    agrees(place)
