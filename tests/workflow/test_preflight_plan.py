"""What a preflight needs before it compiles."""

import sys

import pytest

from tests.conftest import ended

from .conftest import ROOT

pytestmark = pytest.mark.workflow


@pytest.mark.parametrize(
    ("setting", "needs_data"),
    [
        ('pretraining={"steps": 9}', False),
        ('pretraining={"epochs": 2}', True),
    ],
)
def test_a_run_of_so_many_steps_needs_no_data(tmp_path, setting, needs_data):
    command = (sys.executable, "-m", "snakemake", "-s", ROOT / "Snakefile", "-n", "preflight")
    plan = ended(*command, "--config", setting, cwd=tmp_path).stdout
    assert "rule compile_train_step:" in plan and ("rule corpus:" in plan) == needs_data
