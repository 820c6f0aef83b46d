"""Exports opened by PyTorch's classes give the same logits."""

import numpy as np
import pytest
from exported_families import export_all, real
from in_pytorch import run_in_pytorch

from mlm.config.families import FAMILIES

pytestmark = pytest.mark.slow


def test_pytorch_opens_the_exports(tmp_path):
    expected = export_all(FAMILIES, tmp_path)
    run_in_pytorch("logits.py", tmp_path)
    for family, found in expected.items():
        theirs = real(np.load(tmp_path / family / "pytorch.npy"))
        np.testing.assert_allclose(theirs, found, atol=1e-4, rtol=0, err_msg=family)
