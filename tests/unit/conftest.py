"""The small project that questions are asked about, built once."""

import pytest


@pytest.fixture(scope="session")
def made_project(tmp_path_factory):
    from asked_project import DOCUMENTS, new_project, write_project

    with new_project(tmp_path_factory, "asked") as place:
        write_project(DOCUMENTS)
    return place


@pytest.fixture
def project(made_project, tmp_path, monkeypatch):
    """A copy in the working directory, which a test may edit; nothing was trained there."""
    from asked_project import copied

    return copied(made_project, tmp_path, monkeypatch)


@pytest.fixture
def unedited(made_project, monkeypatch):
    monkeypatch.chdir(made_project)
