"""`snakemake publish` on a built project, against a Hub on this machine."""

import json
import re
import shutil

import pytest

from mlm.foundations.digests import file_sha256
from tests.publishing.conftest import TOKEN, hub  # noqa: F401

from .conftest import TINY, Project

pytestmark = pytest.mark.workflow

NAMES = {"tokenizer": "me/tokenizer", "model": "me/model-{run}"}
PUBLISH = NAMES | {"license": "cc0-1.0"}
RULES = {"publish", "publish_tokenizer", "publish_model"}


def files_with(project: Project, text: str) -> list[str]:
    """Files below the project, .snakemake and logs included, tests apart, that hold `text`."""
    own = project.path / "tests"
    found = [f for f in project.path.rglob("*") if f.is_file() and own not in f.parents]
    assert any(".snakemake" in f.parts for f in found) and any("logs" in f.parts for f in found)
    return [str(f) for f in found if text.encode() in f.read_bytes()]


def test_publishing_from_the_first_time_to_nothing_to_be_done(copied, hub, monkeypatch):  # noqa: F811
    project = copied
    monkeypatch.delenv("HF_TOKEN")
    # Not asked for, not done; asked for without a repository or a token: told so.
    project.write_config(TINY | {"publish": PUBLISH})
    assert not project.would_run() & RULES
    refused = project.snakemake("publish", check=False)
    assert refused.returncode and "in the environment variable HF_TOKEN" in refused.stdout
    project.write_config(TINY)
    refused = project.snakemake("publish", check=False)
    assert refused.returncode and "publish: no repository is named" in refused.stdout
    assert hub.requests == []

    project.write_config(TINY | {"publish": PUBLISH})
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    shown = project.snakemake("publish").stdout
    assert re.search(r"publish model base: done in .+ \(me/model-base, commit \w{7}\)\n", shown)
    uploads = list(hub.uploads)
    assert uploads, "the weights"
    results = project.path / "results"
    for name, local in (("me/tokenizer", "tokenizer"), ("me/model-base", "runs/base/model")):
        found = hub.digests(name)
        for file in (results / local).iterdir():
            if file.suffix in (".json", ".safetensors") and "stats" not in file.name:
                assert found[file.name] == file_sha256(file), file
        assert b"license: cc0-1.0" in hub.files(name)["README.md"]
    assert {repo.private for repo in hub.repos.values()} == {True}
    commits = {key: repo.commits[-1] for key, repo in hub.repos.items()}
    records = [json.loads(file.read_text())["commit"] for file in results.glob("publish/*.json")]
    assert sorted(records) == sorted(commits.values())

    # Again: nothing to be done, neither here nor, without the records, there.
    requests = len(hub.requests)
    assert "Nothing to be done" in project.snakemake("publish").stdout
    assert len(hub.requests) == requests
    shutil.rmtree(results / "publish")
    project.snakemake("publish")
    assert hub.uploads == uploads
    assert commits == {key: repo.commits[-1] for key, repo in hub.repos.items()}
    # Nor is a token, the storage's either, in any file.
    assert files_with(project, TOKEN) == files_with(project, "storage-token") == []
