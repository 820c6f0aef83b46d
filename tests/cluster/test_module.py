"""Another workflow that uses this one as a module, with its own configuration and rules."""

import copy
import sys

import pytest

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

rule size:
    default_target: True
    input: "results/runs/narrow/model/model.safetensors"
    output: "size.txt"
    shell: "wc -c {{input}} > {{output}}"
"""


def test_an_overlay_trains_the_same_weights_in_a_module_as_with_configfile(tmp_path):
    """It names one field of model.config: the others keep their defaults either way."""
    overlay = copy.deepcopy(TINY)
    overlay["model"]["config"] = {"hidden_size": 32}
    overlay["runs"] = {"narrow": {"model": {"config": {"intermediate_size": 64}}}}
    outer, plain = Project(tmp_path / "outer"), Project(tmp_path / "plain")
    for project in (outer, plain):
        project.path.mkdir()
        write_small_data(project.path)
    plain.write_config(overlay)
    outer.write_config({"language_model": overlay})
    (outer.path / "Snakefile").write_text(OUTER.format(snakefile=ROOT / "Snakefile"))
    weights, digests = "results/runs/narrow/model/model.safetensors", []
    plainly = ("--snakefile", str(ROOT / "Snakefile"), weights)
    for project, arguments in ((outer, ()), (plain, plainly)):
        start(project, sys.executable, "--cores", "2", *arguments).finished()
        digests.append(file_sha256(project.path / weights))
        assert [run.name for run in (project.path / "results/runs").iterdir()] == ["narrow"]
    assert digests[0] == digests[1]
    assert weights in (outer.path / "size.txt").read_text()
    again = start(outer, sys.executable, "--cores", "2").finished()
    assert "Nothing to be done" in again
