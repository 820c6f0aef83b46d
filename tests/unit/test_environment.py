"""The environment is checked before the first job."""

from pathlib import Path

import pytest

from mlm import environment
from mlm.environment import check_environment, pinned_versions
from mlm.errors import MlmError

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
