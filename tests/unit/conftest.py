"""The small project that questions are asked about, built once; and properties without a clock."""

import pytest
from hypothesis import settings

# A busy machine would fail an example that takes long for once.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty directory, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def made_project(tmp_path_factory):
    from asked_project import DOCUMENTS, new_project, write_project

    with new_project(tmp_path_factory, "asked") as place:
        write_project(DOCUMENTS)
    return place


@pytest.fixture
def project(made_project, tmp_path, monkeypatch):
    from asked_project import copied

    return copied(made_project, tmp_path, monkeypatch)


@pytest.fixture
def unedited(made_project, monkeypatch):
    monkeypatch.chdir(made_project)
