"""Planning needs Snakemake alone: an environment with its packages and no others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cluster.conftest import write_small_data
from tests.conftest import ended
from tests.workflow.conftest import ROOT, TINY

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

#: What snakedeploy writes, which needs a network itself.
DEPLOYED = """\
configfile: "config/config.yaml"

module mlm:
    snakefile:
        {snakefile}
    config:
        config

use rule * from mlm
"""
OF_TAG = 'github("owner/mlm", path="Snakefile", tag="v0")'


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """The `bin` of an environment with Snakemake and what it depends on."""
    place = tmp_path_factory.mktemp("plain")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", place / "bin/python"]
    versions = ROOT / "envs" / "requirements-jax.txt"
    subprocess.run([*uv, "--constraints", versions, "snakemake[reports]"], check=True)
    return place / "bin"


@pytest.fixture
def call(plain, tmp_path):
    """Runs a program of the plain environment in an empty directory."""

    def called(program, *arguments, status=0, **environment) -> str:
        own = {"HOME": str(tmp_path), "PATH": f"{plain}:/usr/bin:/bin"} | environment
        ran = ended(plain / program, *arguments, status=status, cwd=tmp_path, env=own)
        return ran.stdout + ran.stderr

    return called


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dry-run"], "pretrain"),
        (["--dry-run", "--configfile", ROOT / "presets" / "roberta-base-2026.yaml"], "pretrain"),
        (["--lint"], "good condition"),
        (["--dag"], "digraph"),
        (["--list-rules"], "finetune_fold"),
    ],
)
def test_plans_without_the_packages_of_jobs(call, arguments, said):
    assert said in call("snakemake", "--snakefile", ROOT / "Snakefile", *arguments)


@pytest.fixture
def hosted(tmp_path) -> dict[str, str]:
    """Variables by which git finds owner/mlm of github.com in this checkout, with a tag v0."""
    bare = tmp_path / "hosts" / "owner" / "mlm"
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "results", "state"))
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", str(copy)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"], ["tag", "v0"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", copy, bare], check=True)
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{tmp_path}/hosts/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def deploy(place: Path, snakefile: str) -> None:
    """What `snakedeploy deploy-workflow` leaves in `place`."""
    for name in ("config", "profiles"):
        shutil.copytree(ROOT / name, place / name)
    (place / "workflow").mkdir()
    (place / "workflow" / "Snakefile").write_text(DEPLOYED.format(snakefile=snakefile))


@pytest.mark.parametrize("snakefile", [f'"{ROOT}/Snakefile"', OF_TAG], ids=["path", "tag"])
def test_another_workflow_uses_it_as_a_module(call, hosted, tmp_path, snakefile):
    deploy(tmp_path, snakefile)
    assert "rule pretrain:" in call("snakemake", "--dry-run", **hosted)


def test_a_job_without_its_packages_names_the_two_ways_to_get_them(call, hosted, tmp_path):
    deploy(tmp_path, OF_TAG)
    for output in (
        call("snakemake", "--cores", "1", "--snakefile", ROOT / "Snakefile", status=1),
        call("snakemake", "--cores", "1", status=1, **hosted),
    ):
        assert "pyarrow is missing" in output
        assert "pip install --no-deps" in output
        assert "--sdm conda" in output


def test_a_deployment_of_a_tag_makes_results(hosted, tmp_path):
    deploy(tmp_path, OF_TAG)
    write_small_data(tmp_path)
    (tmp_path / "config" / "config.yaml").write_text(yaml.safe_dump(TINY))
    wanted = "results/manifests/validation.json"
    command = (sys.executable, "-m", "snakemake", "--cores", "1", wanted)
    how = {"cwd": tmp_path, "env": os.environ | hosted}
    ended(*command, **how)
    assert (tmp_path / wanted).exists()
    again = ended(*command, "-n", **how)
    assert "Nothing to be done" in again.stdout + again.stderr
