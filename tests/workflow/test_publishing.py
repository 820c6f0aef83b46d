"""`snakemake publish` on a built project, against a Hub on this machine."""

import json
import shutil

import pytest

from tests.publishing.hub_server import Account, Fault, HubServer

from .conftest import TINY, Project

pytestmark = pytest.mark.workflow

TOKEN = "hf_" + "Workflow" * 4
PUBLISH = {
    "tokenizer": "me/tokenizer",
    "dataset": "me/shards",
    "model": "me/model-{run}",
    "license": "cc0-1.0",
    "attempts": 1,
}
RULES = {"publish", "publish_tokenizer", "publish_dataset", "publish_model"}


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with HubServer({TOKEN: Account("me")}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        yield server
    assert server.wrong == []


@pytest.fixture
def project(copied, hub) -> Project:
    return copied


def files_with(project: Project, text: str) -> list[str]:
    """Files below the project, .snakemake and logs included, tests apart, that hold `text`."""
    own = project.path / "tests"
    found = [f for f in project.path.rglob("*") if f.is_file() and own not in f.parents]
    assert any(".snakemake" in f.parts for f in found) and any("logs" in f.parts for f in found)
    return [str(f) for f in found if text.encode() in f.read_bytes()]


def test_publishing_from_the_first_time_to_nothing_to_be_done(project, hub, monkeypatch):
    # Not asked for, not done; asked for without a repository or a token: told so.
    project.write_config(TINY | {"publish": PUBLISH})
    assert not project.would_run() & RULES
    assert project.would_run("publish") & RULES == RULES
    refused = project.snakemake("publish", check=False)
    assert refused.returncode and "in the environment variable HF_TOKEN" in refused.stdout
    project.write_config(TINY)
    refused = project.snakemake("publish", check=False)
    assert refused.returncode and "publish: no repository is named" in refused.stdout
    assert hub.requests == []

    # A Hub that breaks down half-way: told in words, and what arrived stays.
    project.write_config(TINY | {"publish": PUBLISH})
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.faults.append(Fault("POST", "models/me/model-base/commit", status=500, times=100))
    broken = project.snakemake("publish", "--keep-going", check=False)
    assert broken.returncode
    assert "Error in rule publish_model: The Hub is out of order (500: " in broken.stdout
    assert "the same command resumes" in broken.stdout
    uploads = list(hub.uploads)
    assert len(uploads) == 5, "four shards and the weights"

    # The same command goes on: no large file is sent a second time.
    hub.faults.clear()
    project.snakemake("publish")
    assert hub.uploads == uploads
    results = project.path / "results"
    for name, local in (("me/tokenizer", "tokenizer"), ("me/model-base", "runs/base/model")):
        found = hub.files(name)
        for file in (results / local).iterdir():
            if file.suffix in (".json", ".safetensors") and "stats" not in file.name:
                assert found[file.name] == file.read_bytes(), file
        assert b"license: cc0-1.0" in found["README.md"]
    shards = hub.files("me/shards", "dataset")
    for file in results.glob("shards/*/*.tfrecord"):
        assert shards[f"data/{file.parent.name}/{file.name}"] == file.read_bytes()
    assert {repo.private for repo in hub.repos.values()} == {True}
    commits = {key: repo.branches["main"] for key, repo in hub.repos.items()}
    told = [json.loads(file.read_text())["commit"] for file in results.glob("publish/*.json")]
    assert sorted(told) == sorted(commits.values())

    # Again: nothing to be done, neither here nor, without the records, there.
    asked = len(hub.requests)
    assert "Nothing to be done" in project.snakemake("publish").stdout
    assert len(hub.requests) == asked
    shutil.rmtree(results / "publish")
    project.snakemake("publish")
    assert hub.uploads == uploads
    assert commits == {key: repo.branches["main"] for key, repo in hub.repos.items()}
    # Nor is a token, or the signature of an upload link, in any file.
    assert files_with(project, TOKEN) == files_with(project, "signed-secret") == []


@pytest.mark.slow
def test_checkpoints_are_pushed_while_the_workflow_trains(project, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    before = project.digests()
    asked = {"model": "me/model", "checkpoints": {"every": 6}}
    project.write_config(TINY | {"publish": asked})
    shutil.rmtree(project.path / "state")
    project.snakemake("--forcerun", "pretrain", "--until", "pretrain")
    assert project.digests() == before
    repo = hub.repos["model", "me/model"]
    assert repo.private
    titles = [repo.titles[c] for c in repo.history("checkpoints")]
    assert titles[0] == "Step 12"
    # The last checkpoint is the model that the training ended in.
    pushed = hub.files("me/model", branch="checkpoints")
    names = {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"}
    assert set(pushed) == names | {"special_tokens_map.json"}
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert pushed[name] == (project.path / "results/runs/base/model" / name).read_bytes()
    log = (project.path / "logs/pretrain/base.log").read_text()
    assert repo.branches["checkpoints"] in log
    assert files_with(project, TOKEN) == []
