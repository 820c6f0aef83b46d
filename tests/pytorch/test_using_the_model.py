"""docs/using-the-model.md, in an environment without this project's packages."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import report_artefacts as made
from in_pytorch import python_of_pytorch, run_in_pytorch
from small_run import LENGTH, SPECIAL, VOCABULARY, run_child, write_inputs, write_tokenizer
from tests.conftest import ended, users_environment
from tiny_encoder import tiny_config, tiny_encoder

from mlm.config.families import JAX_FAMILIES, TENSORFLOW_FAMILIES
from mlm.foundations.atomic import write_weights
from mlm.tokenizer import tokenizer_files
from mlm.training.model_card import model_card

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
    overrides = {"model": {"family": family}, "pretraining": {"steps": 3}}
    assert run_child(place, "base", overrides) == 0, (place / "base.stderr").read_text()
    (place / "results").mkdir()
    (place / "runs").rename(place / "results" / "runs")
    (place / "scripts").symlink_to(ROOT / "scripts")
    return place


def in_place(place: Path, *command, python: Path | str = "") -> str:
    how = {"cwd": place, "env": users_environment()}
    return ended(python or python_of_pytorch(), *command, **how).stdout


def agrees(place: Path) -> None:
    """sentence-transformers and model.onnx compute what PyTorch computes of the model."""
    texts = ("w7", "w9[MASK]w30")
    found = json.loads(
        run_in_pytorch("opened_model.py", place / MODEL, place / "model.onnx", *texts)
    )
    assert found["longest"] == LENGTH
    assert found["vectors"] < 1e-5 and found["logits"] < 1e-4


@pytest.mark.parametrize("family", ["roberta-prelayernorm", "modernbert"])
def test_every_block_of_the_page_runs_and_agrees_with_pytorch(tmp_path, family):
    place = trained(tmp_path, family)
    assert [language for language, _ in BLOCKS] == ["python"] * 5
    *opened, (_, exported), (_, used) = BLOCKS
    # In one process, which imports once.
    told = in_place(place, "-c", "\n".join(block for _, block in opened))
    assert "torch.Size([2, " in told and "tensor([[1." in told
    in_place(place, "-c", exported)
    assert len(in_place(place, "-c", used).splitlines()) == 5
    agrees(place)


@pytest.mark.parametrize("library", ["pytorch", "tensorflow"])
def test_the_example_of_the_card_of_every_family_works_as_pasted(tmp_path, library):
    families = [f for f in JAX_FAMILIES if library == "pytorch" or f in TENSORFLOW_FAMILIES]
    changes = {"vocab_size": VOCABULARY, "max_position_embeddings": LENGTH + 2}
    program = []
    for family in families:
        place = tmp_path / family
        _, parameters = tiny_encoder(family, **changes)
        tokenizer = json.loads(write_tokenizer(place).read_text())
        tokenizer_files.write_tokenizer(place, tokenizer, SPECIAL, None, LENGTH)
        write_weights(
            {k: np.asarray(v) for k, v in parameters.items()}, place / "model.safetensors"
        )
        (place / "config.json").write_text(json.dumps(tiny_config(family, **changes)))
        training = replace(made.training("base"), model_type=family)
        card = model_card(training, "files", place=str(place))
        ((code,),) = [[c for language, c in blocks(card) if language == "python"]]
        code += "\nassert len(fill(fill.tokenizer.mask_token)) == 5"
        program.append(f"exec({code!r}, {{}})")
    python = sys.executable if library == "tensorflow" else ""
    in_place(tmp_path, "-c", "\n".join(program), python=python)
