"""What a preflight needs before it compiles."""

import pytest

from .conftest import ROOT, Project

pytestmark = pytest.mark.workflow


@pytest.mark.parametrize(("length", "needs_data"), [({"steps": 9}, False), ({"epochs": 2}, True)])
def test_a_run_of_so_many_steps_needs_no_data(tmp_path, length, needs_data):
    project = Project(tmp_path)
    project.write_config({"pretraining": length})
    plan = project.dry_run("-s", str(ROOT / "Snakefile"), "preflight")
    assert "rule compile_train_step:" in plan and ("rule corpus:" in plan) == needs_data
