"""A run that continues another, through the whole workflow."""

import copy

import pytest

from mlm.foundations.digests import file_sha256
from tests.workflow.conftest import TINY

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def test_a_branch_waits_for_its_parent_and_ends_with_the_weights_of_a_whole_training(copied):
    project = copied
    steady, falling = ({"warmup_steps": 2, "decay_steps": n} for n in (0, 5))
    config = copy.deepcopy(TINY)
    config["runs"] = {
        "short": {
            "pretraining": {
                "optimizer": falling,
                "continue_from": {"run": "stable", "step": 7},
            }
        },
        "stable": {"pretraining": {"optimizer": steady}},
        "whole": {"pretraining": {"optimizer": falling}},
    }
    project.write_config(config)
    project.snakemake()
    assert "continues run stable" in (project.path / "logs/pretrain/short.log").read_text()
    short, stable, whole = (
        file_sha256(project.path / f"results/runs/{run}/model/model.safetensors")
        for run in ("short", "stable", "whole")
    )
    assert short == whole != stable
    assert project.would_run() == set()
