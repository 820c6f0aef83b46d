"""Exports opened by the classes of TensorFlow and Flax, which transformers has up to version 4."""

from pathlib import Path

import numpy as np
import pytest
from exported_families import export_all, real
from in_pytorch import python_of, run_in
from tests.conftest import ended, users_environment
from tests.workflow.conftest import built  # noqa: F401

pytestmark = pytest.mark.slow

#: Those that transformers 4 has in TensorFlow or Flax, with classes that read PyTorch's files and
#: compute the same.
FAMILIES = {
    "tensorflow": (
        *("roberta-prelayernorm", "roberta", "bert", "xlm-roberta", "camembert", "distilbert"),
        "electra",
    ),
    "flax": ("roberta-prelayernorm", "roberta", "bert", "distilbert"),
}


@pytest.mark.parametrize("framework", FAMILIES)
def test_its_classes_open_the_exports(tmp_path, framework):
    expected = export_all(FAMILIES[framework], tmp_path)
    run_in("transformers4", "logits.py", framework, tmp_path)
    for family, found in expected.items():
        theirs = real(np.load(tmp_path / family / f"{framework}.npy"))
        np.testing.assert_allclose(theirs, found, atol=1e-4, rtol=0, err_msg=family)


def test_a_run_opens_and_fills_masks_as_its_card_says(built):  # noqa: F811
    script = Path(__file__).with_name("filled_masks.py")
    ended(python_of("transformers4"), script, cwd=built.path, env=users_environment())
