import os
import re
import sys
from pathlib import Path

import pytest
import yaml
from tests.conftest import ended

from mlm.foundations.environment import PACKAGES, pinned_versions
from mlm.foundations.supported_python import NEWEST_PYTHON, OLDEST_PYTHON

ROOT = Path(__file__).parents[2]
ENVS = ROOT / "envs"
PINS = pinned_versions(ENVS / "requirements.txt")
#: What the GPU's and conda's environments have in the place of tensorflow-cpu.
PLAIN = {p: v for p, v in PINS.items() if p != "tensorflow-cpu"}
FOR_WINDOWS = {"colorama", "pyreadline3"}

PYTHONS = [f"3.{minor}" for minor in range(OLDEST_PYTHON[1], NEWEST_PYTHON[1] + 1)]
#: As uv calls the platforms that the README names.
PLATFORMS = ["x86_64-manylinux_2_31", "aarch64-manylinux_2_31", "aarch64-apple-darwin"]


def lacking(pins, name):
    extended = pinned_versions(ENVS / f"requirements-{name}.txt")
    return {p: v for p, v in pins.items() if extended.get(p) != v}


@pytest.mark.parametrize(
    "name", ["preflight", "preflight-gpu", "slurm", "gcs", "gcs-test", "gke", "test"]
)
def test_an_extended_environment_holds_the_default_one(name):
    assert lacking(PINS, name) == {}


def test_gpus_and_conda_get_the_tensorflow_of_the_same_version():
    assert set(lacking(PLAIN, "gpu")) <= FOR_WINDOWS
    gpu = pinned_versions(ENVS / "requirements-gpu.txt")
    assert set(lacking(gpu, "slurm-gpu")) <= FOR_WINDOWS
    assert gpu["jax-cuda12-plugin"] == gpu["jax-cuda12-pjrt"] == PINS["jax"]
    for name in ("gpu", "conda"):
        pins = pinned_versions(ENVS / f"requirements-{name}.txt")
        assert pins["tensorflow"] == PINS["tensorflow-cpu"] == PINS["tensorflow"]
        assert "tensorflow-cpu" not in pins


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "-test"])
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_lock_has_a_package_with_a_hash_for_every_python_and_platform(name, python, platform):
    """Resolved, and nothing downloaded but descriptions. Needs the package index."""
    lock = ENVS / f"requirements{name}.txt"
    command = [sys.executable, "-m", "uv", "pip", "compile", "--no-deps", "--generate-hashes", lock]
    command += ["--python-version", python, "--python-platform", platform]
    # The two that are built: there is only their source, and only Python in it.
    command += ["--only-binary", ":all:", "--no-binary", "connection-pool"]
    command += ["--no-binary", "jsonpath-rw"]
    ran = ended(*command, env=os.environ | {"UV_PYTHON_DOWNLOADS": "never"})
    versions = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", ran.stdout, re.MULTILINE))
    kind = "tensorflow-cpu" if platform.startswith("x86_64") else "tensorflow"
    assert versions[kind] == PINS[kind] and ("tensorflow" in versions) == (kind == "tensorflow")
    assert ("libtpu" in versions) == (bool(name) and platform.startswith("x86_64"))


def test_the_tpu_environment_differs_in_tensorflow_alone():
    tpu = pinned_versions(ROOT / "envs" / "requirements-tpu.txt")
    wanted = {p: PINS[p] for p in PACKAGES if p != "tensorflow"}
    assert {p: v for p, v in wanted.items() if tpu.get(p) != v} == {}
    assert tpu["tensorflow-tpu"] == PINS["tensorflow"]
    # Newer ones abort at the first operation of this TensorFlow.
    assert tpu["libtpu"] == "0.0.14"
    assert "tensorflow" not in tpu and "jax" not in tpu


@pytest.mark.parametrize("lock", sorted(ROOT.glob("[eb]*/requirements*.txt")), ids=lambda f: f.stem)
def test_every_package_has_a_hash_and_no_index_is_named(lock):
    text = lock.read_text()
    assert "://" not in text
    pins = [
        b for b in text.replace("\\\n", "").splitlines() if b and not b.lstrip().startswith("#")
    ]
    assert lock.stem.endswith("overrides") or [pin for pin in pins if "--hash=" not in pin] == []


def test_conda_installs_the_same_packages_by_the_same_hashes():
    """Snakemake copies environment.yaml alone: a file that it named would not be found."""
    pins = (ROOT / "envs" / "requirements-conda.txt").read_text()
    environment = (ROOT / "envs" / "environment.yaml").read_text()
    *_, pip = yaml.load(environment, yaml.CSafeLoader)["dependencies"]
    # conda writes these lines to a requirements file.
    assert pip["pip"] == ["--require-hashes", *re.sub(r" *\\\n +", " ", pins).splitlines()]


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
