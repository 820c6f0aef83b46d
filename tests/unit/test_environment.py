import ast
import os
from pathlib import Path

import pytest
from loaded_script import loaded
from tests.conftest import refusal

from mlm.foundations import environment
from mlm.foundations.environment import check_environment
from mlm.foundations.snakemake_session import check_place

ROOT = Path(__file__).parents[2]


def test_the_pinned_environment_passes():
    check_environment()


@pytest.mark.parametrize(
    ("lock", "tensorflow"),
    [
        ("requirements.txt", "tensorflow"),
        ("requirements-jax.txt", None),
        ("requirements-tpu-tensorflow.txt", "tensorflow-tpu"),
    ],
)
def test_missing_and_other_versions_are_told_together(monkeypatch, lock, tensorflow):
    installed = environment.pinned_versions(ROOT / "envs" / lock)
    installed["tensorflow"] = installed.get(tensorflow)
    monkeypatch.setattr(environment, "installed_version", installed.get)
    check_environment()
    installed |= {"pyarrow": None, "numpy": "1.0"}
    text = refusal(check_environment)
    assert "pyarrow is missing" in text and "numpy 1.0 is installed" in text
    assert "--require-hashes -r " in text and f"envs/{lock}\n" in text


def test_before_anything_is_installed_a_python_that_suits_is_named(monkeypatch):
    check = loaded("check_python")
    assert check.problem() == ""
    monkeypatch.setattr(check.sys, "version_info", (3, 9, 18))
    assert "3.11 to 3.14" in check.problem()
    monkeypatch.setattr(check.sys, "version_info", (3, 14, 0))
    monkeypatch.setattr(check.shutil, "which", lambda _: None)
    assert "C compiler" in check.problem()
    ast.parse((ROOT / "scripts/check_python.py").read_text(), feature_version=(3, 8))


def test_a_place_that_cannot_be_written_to_is_told_before_anything_is_begun(tmp_path, monkeypatch):
    results = tmp_path / "results"
    results.symlink_to("scratch")
    for made in (lambda: None, (tmp_path / "scratch").touch):
        made()
        assert f"{results} is no directory that" in refusal(check_place, tmp_path)
    results.unlink()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert f"{tmp_path} is no directory that" in refusal(check_place, tmp_path)
