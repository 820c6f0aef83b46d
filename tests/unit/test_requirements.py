import os
import re
import sys
from pathlib import Path

import pytest
import yaml
from loaded_script import loaded
from tests.conftest import ended

from mlm.foundations.environment import PACKAGES, pinned_versions

ROOT = Path(__file__).parents[2]
ENVS = ROOT / "envs"
PINS = pinned_versions(ENVS / "requirements.txt")
LOCKS = sorted(ROOT.glob("[eb]*/requirements*.txt"))

CHECK = loaded("check_python")
PYTHONS = [f"3.{minor}" for minor in range(CHECK.OLDEST_PYTHON[1], CHECK.NEWEST_PYTHON[1] + 1)]
#: As uv calls the platforms that the README names.
PLATFORMS = ["x86_64-manylinux_2_31", "aarch64-manylinux_2_31", "aarch64-apple-darwin"]


def test_the_locks_of_tpus_and_gpus_have_the_default_jax_and_no_tensorflow():
    jax = pinned_versions(ENVS / "requirements-jax.txt")
    assert {package: PINS[package] for package in PACKAGES}.items() <= jax.items()
    for name in ("jax", "gpu", "tpu", "preflight-gpu", "slurm", "gcs", "gke"):
        pins = pinned_versions(ENVS / f"requirements-{name}.txt")
        assert not any(package.startswith("tensorflow") for package in pins)
    gpu = pinned_versions(ENVS / "requirements-gpu.txt")
    assert gpu["jax-cuda12-plugin"] == gpu["jax-cuda12-pjrt"] == jax["jax"]


def test_tensorflow_on_a_tpu_has_the_libtpu_of_its_last_build():
    """Newer ones abort at its first operation."""
    tpu = pinned_versions(ENVS / "requirements-tpu-tensorflow.txt")
    assert tpu["tensorflow-tpu"] == "2.20.0" and tpu["libtpu"] == "0.0.14"
    assert "tensorflow" not in tpu


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "-jax", "-test"])
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_lock_has_a_package_with_a_hash_for_every_python_and_platform(name, python, platform):
    """Resolved, and nothing downloaded but descriptions. Needs the package index."""
    lock = ENVS / f"requirements{name}.txt"
    command = [sys.executable, "-m", "uv", "pip", "compile", "--no-deps", "--generate-hashes", lock]
    command += ["--python-version", python, "--python-platform", platform]
    # Those that are built: there is only their source.
    command += ["--only-binary", ":all:", "--no-binary", "connection-pool"]
    if python == "3.14":
        command += ["--no-binary", "immutables"]
    ran = ended(*command, env=os.environ | {"UV_PYTHON_DOWNLOADS": "never"})
    versions = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", ran.stdout, re.MULTILINE))
    kind = "tensorflow-cpu" if platform.startswith("x86_64") else "tensorflow"
    there = {package for package in versions if package.startswith("tensorflow")}
    assert there == ({kind} if name != "-jax" and python != "3.14" else set())
    assert ("libtpu" in versions) == (name == "-test" and platform.startswith("x86_64"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda f: f.stem)
def test_every_package_has_a_hash_and_no_index_is_named(lock):
    text = lock.read_text()
    assert "://" not in text
    lines = [line for line in text.replace("\\\n", "").splitlines() if line.strip(" ")[:1] != "#"]
    well_formed = re.compile(r"\S+==.* --hash=|-r requirements\S*$")
    assert [line for line in lines if not well_formed.match(line)] == []


def test_conda_installs_the_packages_of_the_locks_by_their_hashes():
    """Snakemake copies environment.yaml alone: a file that it named would not be found."""
    environment = yaml.load((ENVS / "environment.yaml").read_text(), yaml.CSafeLoader)
    *_, pip = environment["dependencies"]
    options, *pins = pip["pip"]
    assert options == "--require-hashes" and all("--hash=" in pin for pin in pins)
    there = dict(pin.split()[0].split("==") for pin in pins)
    assert there == PINS | pinned_versions(ENVS / "requirements-tpu.txt")
    assert len(pins) == len(there)


@pytest.mark.parametrize("profile", sorted((ROOT / "profiles").iterdir()), ids=lambda p: p.name)
def test_a_profile_names_rules_that_there_are(profile):
    rules = {
        name
        for file in (ROOT / "rules").glob("*.smk")
        for name in re.findall(r"^ *(?:use rule \w+ as|rule) (\w+)\b", file.read_text(), re.M)
    }
    settings = yaml.safe_load((profile / "config.yaml").read_text())
    named = set(settings.get("set-resources", {}))
    named |= {group.split("=")[0] for group in settings.get("groups", [])}
    assert named <= rules
    # What a kill left unfinished is made again.
    assert settings["rerun-incomplete"] is True
