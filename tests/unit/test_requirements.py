"""The environments of the profiles hold the packages that the workflow was tested with."""

import re
from pathlib import Path

import pytest
import yaml
from loaded_script import loaded

from mlm.foundations.environment import PACKAGES, pinned_versions

ROOT = Path(__file__).parents[2]
PINS = pinned_versions(ROOT / "envs" / "requirements.txt")


@pytest.mark.parametrize("name", ["gpu", "slurm", "gcs", "gcs-test", "gke", "test"])
def test_an_extended_environment_holds_the_default_one(name):
    extended = pinned_versions(ROOT / "envs" / f"requirements-{name}.txt")
    assert {p: v for p, v in PINS.items() if extended.get(p) != v} == {}


def test_the_gpu_environment_has_jaxs_plugin_and_the_cuda_that_tensorflow_takes():
    gpu = pinned_versions(ROOT / "envs" / "requirements-gpu.txt")
    assert gpu["jax-cuda12-plugin"] == gpu["jax-cuda12-pjrt"] == PINS["jax"]
    # tensorflow[and-cuda] 2.20 asks for CUDA from 12.5 on and cuDNN 9; only it needs curand.
    assert gpu["nvidia-cuda-runtime-cu12"].startswith("12.") and "nvidia-curand-cu12" in gpu
    assert gpu["nvidia-cudnn-cu12"].startswith("9.")


def test_the_tpu_environment_differs_in_tensorflow_alone():
    tpu = pinned_versions(ROOT / "envs" / "requirements-tpu.txt")
    wanted = {p: PINS[p] for p in PACKAGES if p != "tensorflow"}
    assert {p: v for p, v in wanted.items() if tpu.get(p) != v} == {}
    assert tpu["tensorflow-tpu"] == PINS["tensorflow"]
    # Newer ones abort at the first operation of this TensorFlow.
    assert tpu["libtpu"] == "0.0.14"
    assert "tensorflow" not in tpu and "jax" not in tpu


@pytest.mark.parametrize(
    "lock",
    [
        f
        for place in ("envs", "benchmarks")
        for f in sorted((ROOT / place).glob("requirements*.txt"))
    ],
    ids=lambda f: f.stem,
)
def test_every_package_has_a_hash_and_no_index_is_named(lock):
    text = lock.read_text()
    assert "://" not in text
    if lock.stem.endswith("overrides"):
        return
    blocks = text.replace("\\\n", "").splitlines()
    assert [
        b for b in blocks if b.strip() and not b.lstrip().startswith("#") and "--hash=" not in b
    ] == []


def test_conda_installs_the_same_packages_by_the_same_hashes():
    """Snakemake copies environment.yaml alone: a file that it named would not be found."""
    pins = (ROOT / "envs" / "requirements.txt").read_text()
    environment = (ROOT / "envs" / "environment.yaml").read_text()
    assert environment == loaded("generate_environment").environment_yaml(pins)
    *_, pip = yaml.load(environment, yaml.CSafeLoader)["dependencies"]
    # conda writes these lines to a requirements file.
    assert pip["pip"] == ["--require-hashes", *re.sub(r" *\\\n +", " ", pins).splitlines()]


@pytest.mark.parametrize("profile", sorted((ROOT / "profiles").iterdir()), ids=lambda p: p.name)
def test_a_profile_reruns_what_a_kill_left_unfinished(profile):
    settings = yaml.safe_load((profile / "config.yaml").read_text())
    assert settings["rerun-incomplete"] is True


@pytest.mark.parametrize("profile", sorted((ROOT / "profiles").iterdir()), ids=lambda p: p.name)
def test_a_profile_names_rules_that_there_are(profile):
    rules = {
        name
        for file in (ROOT / "rules").glob("*.smk")
        for name in re.findall(r"^ *rule (\w+):", file.read_text(), re.M)
    }
    settings = yaml.safe_load((profile / "config.yaml").read_text())
    named = set(settings.get("set-resources", {}))
    named |= {group.split("=")[0] for group in settings.get("groups", [])}
    assert named <= rules
