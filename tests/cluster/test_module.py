"""Another workflow that uses this one as a module, with its own configuration and rules."""

import copy
import sys

import pytest
import yaml

from mlm.foundations.digests import file_sha256
from tests.cluster.conftest import start, write_small_data
from tests.workflow.conftest import ROOT, TINY, Project

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

OUTER = """\
configfile: "tiny.yaml"

module mlm:
    snakefile: "{snakefile}"
    config: config["language_model"]

use rule * from mlm exclude all

rule words:
    default_target: True
    input: "results/tokenizer/tokenizer.json", "results/manifests/train.json"
    output: "sizes.txt"
    shell: "wc -c {{input}} > {{output}}"
"""


@pytest.fixture
def outer(tmp_path) -> Project:
    (tmp_path / "Snakefile").write_text(OUTER.format(snakefile=ROOT / "Snakefile"))
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({"language_model": TINY}))
    write_small_data(tmp_path)
    return Project(tmp_path)


def test_another_workflow_uses_this_one_as_a_module(outer):
    start(outer, sys.executable, "--cores", "2").finished()
    assert "results/manifests/train.json" in (outer.path / "sizes.txt").read_text()
    output = start(outer, sys.executable, "--cores", "2").finished()
    assert "Nothing to be done" in output
    # All the rest is there as well, and the module's own checks see the outer configuration.
    output = start(outer, sys.executable, "--cores", "2", "--dry-run", "results/report.html")
    assert "rule report:" in output.finished()


def test_an_overlay_trains_the_same_weights_in_a_module_as_with_configfile(outer, tmp_path_factory):
    """It names one field of model.config: the others keep their defaults either way."""
    overlay = copy.deepcopy(TINY)
    overlay["model"]["config"] = {"hidden_size": 32}
    overlay["runs"] = {"narrow": {"model": {"config": {"intermediate_size": 64}}}}
    plain = Project(tmp_path_factory.mktemp("plain"))
    plain.write_config(overlay)
    (outer.path / "tiny.yaml").write_text(yaml.safe_dump({"language_model": overlay}))
    (plain.path / "data").symlink_to(outer.path / "data")
    weights, digests = "results/runs/narrow/model/model.safetensors", []
    for project, snakefile in ((outer, "Snakefile"), (plain, str(ROOT / "Snakefile"))):
        command = ("--snakefile", snakefile, "--cores", "2", weights)
        start(project, sys.executable, *command).finished()
        digests.append(file_sha256(project.path / weights))
        assert [run.name for run in (project.path / "results/runs").iterdir()] == ["narrow"]
    assert digests[0] == digests[1]
