"""Uploads arrive whole, go on where they stopped, and are not made twice."""

import hashlib

import pytest
from huggingface_hub import CommitOperationAdd

from mlm.foundations.errors import MlmError
from mlm.publishing import uploads
from mlm.publishing.artefacts import Destination
from mlm.publishing.uploads import publish
from tests.publishing.hub_server import Fault

PLACE = Destination("me/model", "model", private=True)
CARD = b"---\nlicense: other\n---\n\n# model\n"


def content(name: str, size: int) -> bytes:
    """`size` bytes that no other name has; binary, so that they go to the large-file storage."""
    block = hashlib.sha256(name.encode()).digest() + b"\0"
    return (block * (size // len(block) + 1))[:size]


@pytest.fixture
def files(tmp_path) -> dict[str, bytes]:
    found = {f"data/part-{i}.bin": content(f"{i}", 200_000 + i) for i in range(3)}
    return found | {"README.md": CARD}


def upload(files: dict[str, bytes], place, attempts: int = 3) -> tuple:
    """`files` written below `place`, to be uploaded from there."""
    for name, value in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(value)
    listed = [CommitOperationAdd(name, place / name) for name in files]
    return listed, "Publish", attempts


def test_files_arrive_whole_in_a_private_repository(hub, files, tmp_path):
    commit = publish(PLACE, *upload(files, tmp_path))
    assert hub.files("me/model") == files
    repo = hub.repos["model", "me/model"]
    assert repo.private is True
    assert commit == repo.branches["main"]
    # Made by one commit after the Hub's own.
    assert [repo.titles[c] for c in repo.history("main")] == ["Publish", "initial commit"]


def test_a_repository_is_public_only_when_asked_for(hub, files, tmp_path):
    publish(Destination("me/open", "dataset", private=False), *upload(files, tmp_path))
    assert hub.repos["dataset", "me/open"].private is False


def test_only_what_differs_is_uploaded(hub, files, tmp_path):
    publish(PLACE, *upload(files, tmp_path))
    before = list(hub.uploads)
    files |= {"data/part-1.bin": content("new", 1000), "README.md": CARD + b"more\n"}
    publish(PLACE, *upload(files, tmp_path))
    assert hub.uploads[len(before) :] == [hashlib.sha256(files["data/part-1.bin"]).hexdigest()]
    assert hub.files("me/model") == files


@pytest.mark.parametrize(
    "fault",
    [
        Fault("GET", "api/models/me/model", status=503),
        Fault("POST", "repos/create", status=500),
        Fault("GET", "/tree/", status=502),
        Fault("POST", "preupload", status=429, headers={"Retry-After": "7"}),
        Fault("POST", "objects/batch", status=504),
        Fault("PUT", "storage", status=500, after=1),
        Fault("PUT", "storage", reset_after=50_000, after=1),
        Fault("POST", "verify", status=500),
        Fault("POST", "/commit/", status=500),
        Fault("POST", "/commit/", reset_after=100),
        Fault("POST", "/commit/", status=412),
    ],
    ids=lambda f: f"{f.method}-{f.path.strip('/')}-{f.status or 'reset'}",
)
def test_a_failure_in_passing_is_tried_again(hub, files, tmp_path, pauses, fault):
    hub.faults.append(fault)
    publish(PLACE, *upload(files, tmp_path))
    assert fault.times < 1, "the fault never struck"
    assert hub.files("me/model") == files
    assert pauses and max(pauses) == (7.0 if fault.status == 429 else 1.0)
    assert len(hub.uploads) == len(set(hub.uploads)) == 3, "a file was sent twice"


def test_a_rerun_goes_on_where_the_last_one_stopped(hub, files, tmp_path, pauses):
    # One file at a time, so that "half-way" is the same every time.
    hub.faults.append(Fault("PUT", "storage", status=500, times=100, after=2))
    with pytest.raises(MlmError, match=r"out of order \(500.*resumes"):
        publish(PLACE, *upload(files, tmp_path, attempts=2))
    there = list(hub.uploads)
    assert len(there) == 2
    assert hub.files("me/model") == {}, "nothing is shown before it is whole"
    hub.faults.clear()
    publish(PLACE, *upload(files, tmp_path))
    assert hub.files("me/model") == files
    assert hub.uploads[:2] == there and len(hub.uploads) == 3
    assert len(set(hub.uploads)) == 3


def test_many_files_are_committed_in_groups_and_what_is_committed_stays(
    hub, tmp_path, pauses, monkeypatch
):
    monkeypatch.setattr(uploads, "FILES_IN_A_COMMIT", 2)
    files = {f"part-{i}.bin": content(f"{i}", 1000) for i in range(5)} | {"README.md": CARD}
    hub.faults.append(Fault("POST", "preupload", status=500, times=100, after=2))
    with pytest.raises(MlmError):
        publish(PLACE, *upload(files, tmp_path, attempts=2))
    assert sorted(hub.files("me/model")) == [f"part-{i}.bin" for i in range(4)]
    hub.faults.clear()
    publish(PLACE, *upload(files, tmp_path))
    assert hub.files("me/model") == files
    assert len(hub.uploads) == 5


def test_a_file_that_the_repository_ignores_is_named(hub, files, tmp_path):
    hub.ignored = {"data/part-1.bin"}
    with pytest.raises(MlmError, match=r"data/part-1\.bin: .* does not hold what was uploaded"):
        publish(PLACE, *upload(files, tmp_path))


def test_a_file_that_changes_meanwhile_is_not_published(hub, files, tmp_path):
    asked = upload(files, tmp_path)
    (tmp_path / "data/part-0.bin").write_bytes(content("other", 200_000))
    with pytest.raises(MlmError, match=r"part-0\.bin changed while it was being published"):
        publish(PLACE, *asked)
    assert hub.files("me/model") == {}
