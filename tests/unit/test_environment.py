"""The environment is checked before the first job."""

from pathlib import Path

import pytest

from mlm.foundations import environment
from mlm.foundations.environment import check_environment, check_place, pinned_versions
from mlm.foundations.errors import MlmError

REQUIREMENTS = Path(__file__).parents[2] / "envs" / "requirements.txt"


def test_the_pinned_environment_passes():
    check_environment(REQUIREMENTS)


def test_every_checked_package_is_pinned():
    assert set(environment.PACKAGES) <= set(pinned_versions(REQUIREMENTS))


def test_missing_and_other_versions_are_told_together(monkeypatch):
    found = {"pyarrow": None, "numpy": "1.0"}
    real = environment.installed_version
    monkeypatch.setattr(
        environment, "installed_version", lambda p: found.get(p, real(p)) if p in found else real(p)
    )
    with pytest.raises(MlmError) as caught:
        check_environment(REQUIREMENTS)
    text = str(caught.value)
    assert "pyarrow is missing" in text and "numpy 1.0 is installed" in text
    assert "pip install --require-hashes" in text


def test_an_old_python_is_named(monkeypatch):
    monkeypatch.setattr(environment, "OLDEST_PYTHON", (99, 0))
    with pytest.raises(MlmError, match=r"is too old; 99\.0 or later"):
        check_environment(REQUIREMENTS)


def test_results_that_are_a_file_are_refused(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(MlmError, match="results is a file; a directory is expected"):
        check_place(tmp_path)


def test_a_place_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(environment.os, "access", lambda place, mode: False)
    with pytest.raises(MlmError, match="cannot be written to"):
        check_place(tmp_path)


def test_a_full_disk_is_told_before_anything_is_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "LEAST_FREE_BYTES", 10**18)
    with pytest.raises(MlmError, match="MB of free disk space"):
        check_place(tmp_path)
    assert not list(tmp_path.iterdir())
