"""docs/using-the-model.md, in an environment without this project's packages."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import report_artefacts as made
from in_pytorch import python_of_pytorch, run_in_pytorch
from small_run import LENGTH, SPECIAL, VOCABULARY, run_child, write_inputs, write_tokenizer
from test_finetuning_report import metrics
from tests.conftest import ended, users_environment
from tiny_encoder import tiny_config, tiny_encoder

from mlm.config.families import JAX_FAMILIES, TENSORFLOW_FAMILIES
from mlm.finetuning.finetuned_card import finetuned_card
from mlm.finetuning.sequence_model import sequence_model
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


def test_every_block_of_the_page_runs_and_agrees_with_pytorch(tmp_path):
    place = trained(tmp_path, "roberta-prelayernorm")
    assert [language for language, _ in BLOCKS] == ["python"] * 5
    *opened, (_, exported), (_, used) = BLOCKS
    # In one process, which imports once.
    told = in_place(place, "-c", "\n".join(block for _, block in opened))
    assert "torch.Size([2, " in told and "tensor([[1." in told
    in_place(place, "-c", exported)
    assert len(in_place(place, "-c", used).splitlines()) == 5
    agrees(place)


def test_modernbert_is_opened_and_turned_to_onnx_too(tmp_path):
    place = trained(tmp_path, "modernbert")
    _, exported = BLOCKS[3]
    in_place(place, "-c", exported)
    agrees(place)


def export_tokenizer(place: Path) -> None:
    """The tokenizer's files beside a model, as pretraining writes them."""
    tokenizer = json.loads(write_tokenizer(place).read_text())
    tokenizer_files.write_tokenizer(place, tokenizer, SPECIAL, None, LENGTH)


def card_of_family(place: Path, family: str) -> str:
    """The card of a model of random weights in `place`."""
    import numpy as np

    changes = {"vocab_size": VOCABULARY, "max_position_embeddings": LENGTH + 2}
    _, parameters = tiny_encoder(family, **changes)
    export_tokenizer(place)
    write_weights({k: np.asarray(v) for k, v in parameters.items()}, place / "model.safetensors")
    (place / "config.json").write_text(json.dumps(tiny_config(family, **changes)))
    return model_card(replace(made.training("base"), model_type=family), "files", place=str(place))


def pasted(library: str, place: Path, pages: dict[str, str], then: str) -> None:
    """Run the one Python block of every page by itself, and `then`, in one process."""
    program = ["import traceback", "failed = []"]
    for name, page in pages.items():
        ((code,),) = [[c for language, c in blocks(page) if language == "python"]]
        program.append(f"try:\n    exec({code + then!r}, {{}})")
        program.append(f"except Exception:\n    failed.append(({name!r}, traceback.format_exc()))")
    program.append("assert not failed, failed")
    python = sys.executable if library == "tensorflow" else ""
    in_place(place, "-c", "\n".join(program), python=python)


@pytest.mark.parametrize("library", ["pytorch", "tensorflow"])
def test_the_example_of_the_card_of_every_family_works_as_pasted(tmp_path, library):
    families = [f for f in JAX_FAMILIES if library == "pytorch" or f in TENSORFLOW_FAMILIES]
    assert len(families) == (5 if library == "pytorch" else 4)
    cards = {family: card_of_family(tmp_path / family, family) for family in families}
    pasted(library, tmp_path, cards, "\nassert len(fill(fill.tokenizer.mask_token)) == 5")


@pytest.mark.parametrize("library", ["pytorch", "tensorflow"])
def test_the_examples_of_the_readme_and_of_its_page_work_as_pasted(tmp_path, library):
    card_of_family(tmp_path / MODEL, "roberta-prelayernorm")
    use = (ROOT / "README.md").read_text().split("## Use the model")[1].split("\n## ")[0]
    filling = (ROOT / "docs" / "using-the-model.md").read_text().split("## Vectors of tokens")[0]
    pasted(library, tmp_path, {"README.md": use, "docs": filling}, "")


@pytest.mark.parametrize("library", ["pytorch", "tensorflow"])
def test_a_fine_tuned_model_names_its_classes_in_the_example_of_its_card(tmp_path, library):
    classes = ["easy", "fair", "hard"]
    config = tiny_config("roberta", vocab_size=VOCABULARY, max_position_embeddings=LENGTH + 2)
    model = sequence_model(config, classes, 0.0)
    export_tokenizer(tmp_path)
    model.write(tmp_path, model.parameters(0))
    judged = metrics(task="classification")
    judged = replace(judged, shown=replace(judged.shown, classes=classes))
    then = "\n(found,) = predict('w7')\nassert found['label'] in ('easy', 'fair', 'hard'), found"
    card = finetuned_card(judged, "roberta", str(tmp_path))
    pasted(library, tmp_path, {"card": card}, then)
