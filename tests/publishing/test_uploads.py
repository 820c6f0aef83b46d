"""Uploads arrive whole, resume where they stopped, and are not made twice."""

import hashlib

import pytest

from mlm.foundations.errors import MlmError
from mlm.publishing.artefacts import Destination
from mlm.publishing.uploads import Upload, publish
from tests.publishing.hub_server import Fault

PLACE = Destination("me/model", private=True)
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
    uploads = {name: Upload(place / name, sha256(value)) for name, value in files.items()}
    return publish(destination, uploads, "Publish")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def arrived(hub, files: dict[str, bytes], name: str = "me/model") -> bool:
    return hub.digests(name) == {path: sha256(value) for path, value in files.items()}


@pytest.mark.parametrize("private", [True, False])
def test_files_arrive_whole_in_a_repository_that_is_public_only_if_asked_for(
    hub, files, tmp_path, private
):
    commit = upload(files, tmp_path, Destination("me/it", private))
    assert arrived(hub, files, "me/it")
    repo = hub.repos["me/it"]
    assert repo.private is private and repo.commits[1:] == [commit]


def test_only_what_differs_is_uploaded(hub, files, tmp_path):
    upload(files, tmp_path)
    before = len(hub.uploads)
    files |= {"data/part-1.bin": content("new", 1000), "README.md": CARD + b"more\n"}
    upload(files, tmp_path)
    assert len(hub.uploads) == before + 1
    assert arrived(hub, files)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST", "preupload", 429, headers={"Retry-After": "7"}),
        Fault("POST", "xorbs", 500),
        Fault("POST", "/commit/"),
        Fault("POST", "/commit/", 503),
    ],
    ids=lambda f: f"{f.method}-{f.path.strip('/')}-{f.status or 'cut'}",
)
def test_a_failure_in_passing_is_tried_again(hub, files, tmp_path, pauses, fault):
    hub.faults.append(fault)
    upload(files, tmp_path)
    assert fault.times < 1, "the fault never struck"
    assert arrived(hub, files)
    assert fault.status != 429 or pauses == [8]
    assert len(hub.uploads) == len(set(hub.uploads)), "a file was sent twice"


def test_a_rerun_resumes(hub, files, tmp_path, pauses):
    hub.faults.append(Fault("POST", "/commit/", 500, times=100))
    with pytest.raises(MlmError, match=r"500.*the same command resumes"):
        upload(files, tmp_path)
    before = list(hub.uploads)
    assert before and hub.digests("me/model") == {}
    hub.faults.clear()
    upload(files, tmp_path)
    assert arrived(hub, files) and hub.uploads == before


def test_a_file_that_the_repository_ignores_is_named(hub, files, tmp_path):
    hub.ignored = {"data/part-1.bin"}
    with pytest.raises(MlmError, match=r"data/part-1\.bin.*\.gitignore"):
        upload(files, tmp_path)
