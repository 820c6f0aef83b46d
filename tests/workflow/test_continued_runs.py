"""A run that continues another from a saved state."""

import copy

import pytest

from mlm.foundations.digests import file_sha256
from tests.workflow.conftest import TINY

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def test_a_run_continues_from_a_saved_state_to_the_same_weights(copied):
    project, config = copied, copy.deepcopy(TINY)
    config["model"]["initialisation"] = {"embeddings": "random"}
    config["pretraining"] |= {"checkpoint": {"every": 4, "keep": None}}
    project.write_config(config)
    project.snakemake("results/runs/base/training.json")

    continued = {"pretraining": {"continue_from": {"run": "base", "step": 8}}}
    project.write_config(config | {"runs": {"base": {}, "continued": continued}})
    project.snakemake("results/runs/continued/training.json")
    assert "continues run base" in (project.path / "logs/pretrain/continued.log").read_text()
    models = (project.path / f"results/runs/{run}/model" for run in ("base", "continued"))
    base, again = (file_sha256(model / "model.safetensors") for model in models)
    assert base == again
