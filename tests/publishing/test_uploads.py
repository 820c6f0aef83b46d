"""Uploads arrive whole, resume where they stopped, and are not made twice."""

import hashlib

import pytest

from mlm.foundations.errors import MlmError
from mlm.publishing.uploads import Destination, publish

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
    return publish(destination, {name: place / name for name in files}, "Publish")[0]


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


def test_a_rerun_resumes_with_what_differs(hub, files, tmp_path):
    hub.refused = "/commit/"
    with pytest.raises(MlmError, match=r"Storage limit.*the same command resumes"):
        upload(files, tmp_path)
    before = list(hub.uploads)
    assert before and hub.digests("me/model") == {}
    hub.refused = "nothing"
    upload(files, tmp_path)
    assert arrived(hub, files) and hub.uploads == before
    files |= {"data/part-1.bin": content("new", 1000), "README.md": CARD + b"more\n"}
    upload(files, tmp_path)
    assert arrived(hub, files) and len(hub.uploads) == len(before) + 1


def test_a_file_that_the_repository_ignores_is_named(hub, files, tmp_path):
    hub.ignored = {"data/part-1.bin"}
    with pytest.raises(MlmError, match=r"data/part-1\.bin.*\.gitignore"):
        upload(files, tmp_path)
