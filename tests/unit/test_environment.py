import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loaded_script import loaded
from tests.conftest import ended, refusal

from mlm.foundations import environment, snakemake_session
from mlm.foundations.environment import check_environment
from mlm.foundations.errors import MlmError
from mlm.foundations.snakemake_session import check_dates, check_place

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


def test_a_locale_that_has_not_all_characters_is_told_at_once():
    how = {"cwd": ROOT, "env": os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"}}
    ran = ended(sys.executable, "scripts/fill.py", "a [MASK]", status=1, **how)
    assert "Traceback" not in ran.stderr and "PYTHONUTF8=1" in ran.stderr


def test_before_anything_is_installed_a_python_that_suits_is_named(monkeypatch):
    check = loaded("check_python")
    assert check.problem() == ""
    monkeypatch.setattr(check.sys, "version_info", (3, 9, 18))
    assert "3.11 to 3.14" in check.problem()
    monkeypatch.setattr(check.sys, "version_info", (3, 14, 0))
    monkeypatch.setattr(check.shutil, "which", lambda _: None)
    assert "C compiler" in check.problem()
    ast.parse((ROOT / "scripts/check_python.py").read_text(), feature_version=(3, 8))


def test_a_place_that_cannot_be_filled_is_told_before_anything_is_begun(tmp_path, monkeypatch):
    results = tmp_path / "results"
    with monkeypatch.context() as patch, pytest.raises(MlmError, match="MB of free disk space"):
        patch.setattr(snakemake_session, "LEAST_FREE_BYTES", 10**18)
        check_place(tmp_path)
    assert not list(tmp_path.iterdir())
    results.symlink_to("scratch")
    with pytest.raises(MlmError, match="results is a file, or a link to nothing"):
        check_place(tmp_path)
    (tmp_path / "scratch").touch()
    with pytest.raises(MlmError, match="results is a file, or a link to nothing"):
        check_place(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    results.unlink()
    with pytest.raises(MlmError, match=f"{tmp_path} cannot be written to, so results/ cannot be"):
        check_place(tmp_path)


@pytest.mark.parametrize("dated", ["a.txt", "link.txt"])
def test_a_file_or_a_link_of_the_future_is_refused_with_the_command_that_mends_it(here, dated):
    files = ["a.txt", "link.txt", "absent.txt"]
    (here / "a.txt").touch()
    (here / "link.txt").symlink_to("a.txt")
    check_dates(files)
    os.utime(dated, (2_000_000_000, 2_000_000_000), follow_symlinks=False)
    said, _, command = refusal(check_dates, files).rpartition("today: ")
    assert f"{here / dated} is dated in the future" in said
    subprocess.run(command, shell=True, check=True, cwd="/")
    check_dates(files)
