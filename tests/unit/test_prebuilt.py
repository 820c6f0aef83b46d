import gzip
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest, check_shards
from mlm.samples.object_storage import list_files, local_copy
from mlm.samples.prebuilt import find_shards, prebuilt_manifest
from mlm.samples.split_samples import read_samples
from mlm.samples.tfrecord import SampleWriter
from mlm.samples.verification import SampleSchema, verify_split

SCHEMA = SampleSchema(sequence_length=4, vocabulary_size=100, pad_id=1)


def shard(directory: Path, number, samples, name="wiki", stated=None, length=4):
    stated = samples if stated is None else stated
    with SampleWriter(directory / f"{name}-{number}-{stated}.tfrecord") as writer:
        writer.write(np.full((samples, length), 5 + number), np.full(samples, length))


def manifest_of(directory):
    return prebuilt_manifest("train", str(directory), SCHEMA)


def test_shards_made_elsewhere_get_a_manifest_that_holds(tmp_path, capsys):
    for number in range(11):
        shard(tmp_path, number, 3 + number)
    manifest = manifest_of(tmp_path)
    assert [s.num_samples for s in manifest.shards] == list(range(3, 14))
    assert manifest.num_tokens == sum(range(3, 14)) * 4
    assert manifest.corpus_sha256 is None and manifest.tokenizer_sha256 is None
    assert "which tokenizer made the shards" in capsys.readouterr().err
    assert [s.block_offsets for s in manifest.shards] == [(0,)] * 11
    manifest.write(tmp_path / "train.json")
    assert Manifest.read(tmp_path / "train.json") == manifest
    check_shards(manifest)
    assert verify_split(manifest, SCHEMA).problems == ()


def test_names_that_are_no_whole_set_say_what_is_there(tmp_path):
    with pytest.raises(MlmError, match=r"shards\.prebuilt\.test: .* found nothing"):
        find_shards(str(tmp_path / "nowhere"), "test")
    (tmp_path / "train-00000-of-00001.tfrecord").touch()
    with pytest.raises(MlmError, match=r"found 1 files: train-00000-of-00001\.tfrecord"):
        find_shards(str(tmp_path), "test")
    for name, number in (("train", 0), ("test", 0), ("test", 1), ("test", 3)):
        shard(tmp_path, number, 2, name)
    told = f"several sets: test, train. Name one of them: {tmp_path}/t"
    with pytest.raises(MlmError, match=told):
        find_shards(str(tmp_path), "train")
    assert [s.name for s in find_shards(f"{tmp_path}/train", "train")] == ["train"]
    with pytest.raises(MlmError, match="shard 2 is missing between"):
        find_shards(f"{tmp_path}/test", "train")


def test_every_bad_shard_is_named(tmp_path):
    shard(tmp_path, 0, 2, length=8)
    shard(tmp_path, 1, 2, stated=3)
    shard(tmp_path, 2, 2)
    (tmp_path / "wiki-3-1.tfrecord").write_bytes(b"no record at all")
    (tmp_path / "wiki-4-2.tfrecord").write_bytes(gzip.compress(b"records"))
    with pytest.raises(MlmError) as caught:
        manifest_of(tmp_path)
    text = str(caught.value)
    assert "wiki-0-2.tfrecord: record 0: attention_mask holds 8 values; 4 are expected" in text
    assert "wiki-1-3.tfrecord: holds 2 samples; its name says 3" in text
    assert "wiki-3-1.tfrecord: record 0 at byte 0: the checksum of its length is wrong" in text
    assert "wiki-4-2.tfrecord: is compressed by gzip; unpack it" in text
    assert "wiki-2-2" not in text


class FakeClient:
    """As much of google-cloud-storage as is used, over the directory `root`."""

    root: Path

    def list_blobs(self, bucket, prefix, delimiter):
        assert delimiter == "/"
        names = (p.relative_to(bucket).as_posix() for p in bucket.rglob("*") if p.is_file())
        rest = {n: n.removeprefix(prefix) for n in names if n.startswith(prefix)}
        return [types.SimpleNamespace(name=n) for n, r in rest.items() if "/" not in r]

    def bucket(self, name):
        return FakeBucket(self.root / name)


class FakeBucket(type(Path())):
    def get_blob(self, name):
        return self.blob(name) if (self / name).is_file() else None

    def blob(self, name):
        def read(start, end):
            return (self / name).read_bytes()[start : None if end is None else end + 1]

        return types.SimpleNamespace(
            size=(self / name).stat().st_size,
            download_to_filename=lambda target: Path(target).write_bytes(read(0, None)),
            download_as_bytes=read,
        )


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A directory that is read as gs://bucket."""
    storage = types.ModuleType("google.cloud.storage")
    FakeClient.root = tmp_path
    storage.Client = FakeClient
    cloud = types.ModuleType("google.cloud")
    cloud.storage = storage
    monkeypatch.setitem(sys.modules, "google.cloud", cloud)
    monkeypatch.setitem(sys.modules, "google.cloud.storage", storage)
    (tmp_path / "bucket" / "data").mkdir(parents=True)
    return tmp_path / "bucket"


def test_shards_in_object_storage_get_a_manifest(bucket):
    for number in range(2):
        shard(bucket / "data", number, 3)
    manifest = prebuilt_manifest("train", "gs://bucket/data", SCHEMA)
    assert [s.path for s in manifest.shards] == [
        f"gs://bucket/data/wiki-{n}-3.tfrecord" for n in (0, 1)
    ]
    check_shards(manifest)
    assert verify_split(manifest, SCHEMA).problems == ()
    assert [len(s.input_ids) for s in read_samples(manifest)] == [3, 3]
    (bucket / "data" / "wiki-1-3.tfrecord").write_bytes(b"")
    with pytest.raises(MlmError, match=r"gs://bucket/data/wiki-1-3\.tfrecord: has 0 bytes"):
        check_shards(manifest)
    missing = r"gs://bucket/data/none\.tfrecord: is missing"
    with pytest.raises(MlmError, match=missing), local_copy("gs://bucket/data/none.tfrecord"):
        pass


def test_without_a_package_for_gs_the_error_says_which(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.cloud", None)
    with pytest.raises(MlmError, match="need the package google-cloud-storage"):
        list_files("gs://bucket/data")
