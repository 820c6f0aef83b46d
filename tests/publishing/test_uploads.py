"""Uploads arrive whole, resume where they stopped, and are not made twice."""

import hashlib

import pytest
from huggingface_hub import CommitOperationAdd

from mlm.foundations.errors import MlmError
from mlm.publishing import publishing_jobs as uploads
from mlm.publishing.artefacts import Destination
from mlm.publishing.publishing_jobs import publish
from tests.publishing.hub_server import Fault

PLACE = Destination("me/model", "model", private=True)
CARD = b"---\nlicense: other\n---\n\n# model\n"


def content(name: str, size: int) -> bytes:
    """`size` bytes that no other name has; binary, so that they go to the large-file storage."""
    block = hashlib.sha256(name.encode()).digest() + b"\0"
    return (block * (size // len(block) + 1))[:size]


@pytest.fixture
def files(tmp_path) -> dict[str, bytes]:
    parts = {f"data/part-{i}.bin": content(f"{i}", 200_000 + i) for i in range(3)}
    return parts | {"README.md": CARD}


def upload(files: dict[str, bytes], place, destination=PLACE) -> str:
    """Publish `files` from below `place`; the commit."""
    for name, value in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(value)
    listed = [CommitOperationAdd(name, place / name) for name in files]
    return publish(destination, listed, "Publish")


@pytest.mark.parametrize(("kind", "private"), [("model", True), ("dataset", False)])
def test_files_arrive_whole_in_a_repository_that_is_public_only_if_asked_for(
    hub, files, tmp_path, kind, private
):
    commit = upload(files, tmp_path, Destination("me/it", kind, private))
    assert hub.files("me/it", kind) == files
    repo = hub.repos[kind, "me/it"]
    assert repo.private is private and repo.commits[1:] == [commit]


def test_only_what_differs_is_uploaded(hub, files, tmp_path):
    upload(files, tmp_path)
    before = list(hub.uploads)
    files |= {"data/part-1.bin": content("new", 1000), "README.md": CARD + b"more\n"}
    upload(files, tmp_path)
    assert hub.uploads[len(before) :] == [hashlib.sha256(files["data/part-1.bin"]).hexdigest()]
    assert hub.files("me/model") == files


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST", "preupload", 429, headers={"Retry-After": "7"}),
        Fault("PUT", "storage", after=1),
        Fault("POST", "/commit/"),
        Fault("POST", "/commit/", 412),
    ],
    ids=lambda f: f"{f.method}-{f.path.strip('/')}-{f.status or 'cut'}",
)
def test_a_failure_in_passing_is_tried_again(hub, files, tmp_path, pauses, fault):
    hub.faults.append(fault)
    upload(files, tmp_path)
    assert fault.times < 1, "the fault never struck"
    assert hub.files("me/model") == files
    assert fault.status != 429 or pauses == [7]
    assert len(hub.uploads) == len(set(hub.uploads)) == 3, "a file was sent twice"


def test_many_files_are_committed_in_groups_and_a_rerun_resumes(hub, tmp_path, pauses, monkeypatch):
    monkeypatch.setattr(uploads, "FILES_IN_A_COMMIT", 2)
    files = {f"part-{i}.bin": content(f"{i}", 1000) for i in range(5)} | {"README.md": CARD}
    hub.faults += [
        Fault("PUT", "storage", 500, times=100, after=4),
        Fault("POST", "/commit/", 500, times=100, after=1),
    ]
    with pytest.raises(MlmError, match=r"500.*the same command resumes"):
        upload(files, tmp_path)
    assert sorted(hub.files("me/model")) == ["part-0.bin", "part-1.bin"]
    assert len(hub.uploads) == 4
    hub.faults.clear()
    upload(files, tmp_path)
    assert hub.files("me/model") == files
    assert len(hub.uploads) == len(set(hub.uploads)) == 5


def test_a_file_that_the_repository_ignores_is_named(hub, files, tmp_path):
    hub.ignored = {"data/part-1.bin"}
    with pytest.raises(MlmError, match=r"data/part-1\.bin.*\.gitignore"):
        upload(files, tmp_path)
