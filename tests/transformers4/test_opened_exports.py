"""Exports opened by the classes of TensorFlow and Flax, which transformers has up to version 4."""

from pathlib import Path

import numpy as np
import pytest
from exported_families import export_all, real
from in_pytorch import python_of
from tests.conftest import ended, users_environment
from tests.workflow.conftest import built  # noqa: F401

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
#: Those that transformers 4 has in TensorFlow or Flax, with classes that read PyTorch's files and
#: compute the same.
FAMILIES = {
    "tensorflow": (
        *("roberta-prelayernorm", "roberta", "bert", "xlm-roberta", "camembert", "distilbert"),
        "electra",
    ),
    "flax": ("roberta-prelayernorm", "roberta", "bert", "distilbert"),
}


def in_transformers_4(script: str, *arguments, cwd=None) -> None:
    """Run it where transformers has these classes."""
    python = python_of("transformers4")
    ended(python, HERE / script, *arguments, cwd=cwd, env=users_environment())


@pytest.mark.parametrize("framework", FAMILIES)
def test_its_classes_open_the_exports(tmp_path, framework):
    expected = export_all(FAMILIES[framework], tmp_path)
    in_transformers_4("logits.py", framework, tmp_path)
    for family, found in expected.items():
        theirs = real(np.load(tmp_path / family / f"{framework}.npy"))
        np.testing.assert_allclose(theirs, found, atol=1e-4, rtol=0, err_msg=family)


def test_a_run_opens_and_fills_masks_as_its_card_says(built):  # noqa: F811
    in_transformers_4("filled_masks.py", cwd=built.path)
