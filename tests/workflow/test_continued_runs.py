"""A run that continues another from the saved state that ask.py names."""

import copy
import json

import pytest

from mlm.foundations.digests import file_sha256
from tests.workflow.conftest import TINY

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def test_a_run_continues_from_the_state_that_ask_names_to_the_same_weights(copied):
    project, config = copied, copy.deepcopy(TINY)
    config["model"]["initialisation"] = {"embeddings": "random"}
    config["pretraining"] |= {"checkpoint": {"every": 4, "keep": None}}
    project.write_config(config)
    project.snakemake("results/runs/base/training.json", "results/manifests/test.json")
    ask = ["scripts/ask.py", "of the", "--most", "10000", "--json", "--configfile", "tiny.yaml"]
    passages = json.loads(project.python(*ask).stdout)["passages"]
    late = next(passage for passage in passages if (passage["first_step"] or 0) > 4)
    assert late["state_before"]["step"] == (late["first_step"] - 1) // 4 * 4

    continued = {"pretraining": {"continue_from": late["state_before"]}}
    project.write_config(config | {"runs": {"base": {}, "continued": continued}})
    project.snakemake("results/runs/continued/training.json")
    assert "continues run base" in (project.path / "logs/pretrain/continued.log").read_text()
    models = (project.path / f"results/runs/{run}/model" for run in ("base", "continued"))
    base, again = (file_sha256(model / "model.safetensors") for model in models)
    assert base == again
