"""Preflight as a user runs it, on the tiny workflow."""

import json

import pytest

from tests.workflow.conftest import TINY, copy_of_the_repository

pytestmark = [pytest.mark.slow, pytest.mark.workflow]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = copy_of_the_repository(tmp_path_factory.mktemp("preflight"))
    project.write_config(TINY | {"preflight": {"targets": ["v5e:2x2"]}})
    return project


def test_a_run_that_fits_passes_and_is_the_same_bytes_again(project):
    ran = project.snakemake("--", "preflight")
    assert "v5e:2x2  fits" in ran.stdout
    report = project.path / "results" / "runs" / "base" / "preflight.json"
    first = report.read_bytes()
    assert json.loads(first)["passed"]
    report.unlink()
    project.snakemake("--", "results/runs/base/preflight.json")
    assert report.read_bytes() == first


def test_an_unknown_target_is_told_before_the_first_job(project):
    project.write_config(TINY | {"preflight": {"targets": ["v5e-8", "v5e:2x2"]}})
    ran = project.snakemake("--", "preflight", check=False)
    assert ran.returncode != 0
    assert "preflight.targets: 'v5e-8' is not a TPU topology; nearest: v5e:2x4" in ran.stdout
    assert "lower_train_step" not in ran.stdout
