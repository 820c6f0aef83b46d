import dataclasses
import json
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_tokenizer import CharacterTokenizer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_artefacts import corpus

from mlm.config.tokenizer import Shards
from mlm.corpus.artefacts import CorpusSplit, document_range, overlapping
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest, check_shards
from mlm.samples.sharding import merged_manifest, write_shard
from mlm.samples.tfrecord import decode_samples, read_records

LENGTH = 8


def corpus_of(directory: Path, texts, row_group_size=3, groups=None) -> Path:
    """A Parquet file of `texts` and its record; the record's path."""
    path = directory / "train.parquet"
    groups = range(len(texts)) if groups is None else groups
    table = pa.table({"text": pa.array(texts, pa.string()), "group": groups})
    pq.write_table(table, path, row_group_size=row_group_size)
    file = {"name": path.name, "documents": len(texts), "bytes": path.stat().st_size}
    files = [file | {"sha256": file_sha256(path)}]
    split = corpus("train", documents=len(texts), group_by="document", files=files)
    split.write(path.with_suffix(".json"))
    return path.with_suffix(".json")


def make(directory: Path, record: Path, shard=0, shards=1, batch=2):
    tokenizer = directory / "tokenizer.json"
    tokenizer.write_text("{}")
    section = Shards(sequence_length=LENGTH)
    file = directory / f"train-{shard:05d}-of-{shards:05d}.tfrecord"
    with mock.patch("mlm.samples.sharding.DOCUMENTS_AT_A_TIME", batch):
        share = shard, shards
        return file, write_shard(file, share, record, section, CharacterTokenizer(), tokenizer)


def read(file: Path, grouped=False):
    with file.open("rb") as stream:
        return decode_samples(list(read_records(stream, file.name)), LENGTH, grouped=grouped)


def tokens_of(file: Path) -> list[int]:
    ids, mask = read(file)
    return ids[mask == 1].tolist()


@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 40), st.data())
def test_the_files_that_a_shard_declares_hold_all_its_documents(documents, files, shards, data):
    shard = data.draw(st.integers(0, shards - 1))
    declared = overlapping(shard, shards, files)
    held = {d for f in declared for d in document_range(documents, f, files)}
    assert held >= set(document_range(documents, shard, shards))
    assert sum(len(document_range(documents, i, shards)) for i in range(shards)) == documents
    # None too many: of enough documents, each file has some of the shard.
    many = document_range(files * shards, shard, shards)
    assert all(set(many) & set(document_range(files * shards, f, files)) for f in declared)


@given(st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_tokens_into_packing_are_the_tokens_out_of_the_shards(tmp_path, data):
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
    texts = data.draw(st.lists(text, min_size=1, max_size=20))
    shards = data.draw(st.integers(1, len(texts)))
    batch = data.draw(st.integers(1, 7))
    record = corpus_of(tmp_path, texts, data.draw(st.integers(1, 9)))
    out, manifests = [], []
    for shard in range(shards):
        file, manifest = make(tmp_path, record, shard, shards, batch=batch)
        out += tokens_of(file)
        manifests.append(manifest)
    assert out == [t for document in CharacterTokenizer().encode(texts) for t in document]
    assert sum(m.num_tokens for m in manifests) == len(out)
    assert sum(m.documents for m in manifests) == len(texts)


@pytest.mark.parametrize("shards", [1, 3])
def test_every_token_has_the_group_of_its_document_whatever_the_shards(tmp_path, shards):
    texts = ["one", "two words", "three", "and four", "five", "and then six"]
    groups = ["speech a", "speech b", "speech b", "speech a", "speech a", "speech c"]
    record = corpus_of(tmp_path, texts, groups=groups)
    files = [make(tmp_path, record, i, shards)[0] for i in range(shards)]
    found = [g for file in files for g in read(file, grouped=True)[2].flat if g >= 0]
    lengths = [len(ids) for ids in CharacterTokenizer().encode(texts)]
    expected = [g for g, n in zip(groups, lengths, strict=True) for _ in range(n)]
    named = dict(zip(found, expected, strict=True))
    assert len(named) == 3 and [named[g] for g in found] == expected


def test_what_cannot_be_divided_is_refused_and_special_strings_are_counted(tmp_path):
    record = corpus_of(tmp_path, ["a [MASK] b", "[MASK][MASK]"])
    assert make(tmp_path, record)[1].special_literals == 3
    with pytest.raises(MlmError, match=r"shards\.count\.train to at most 2"):
        make(tmp_path, record, 0, 3)
    pq.write_table(pa.table({"text": ["a", "b"]}), record.with_suffix(".parquet"))
    with pytest.raises(MlmError, match="no column 'group'"):
        make(tmp_path, record)


@pytest.fixture
def made(tmp_path):
    record = corpus_of(tmp_path, texts := [f"document number {i}" for i in range(10)])
    parts = [make(tmp_path, record, i, 3)[1] for i in range(3)]
    return texts, parts, CorpusSplit.read(record)


def test_the_manifest_has_the_totals_of_the_shards(made, tmp_path):
    texts, parts, split = made
    merged_manifest(parts, split).write(tmp_path / "manifest.json")
    check_shards(Manifest.read(tmp_path / "manifest.json"))
    found = json.loads((tmp_path / "manifest.json").read_text())
    for key in ("num_samples", "num_tokens", "num_padding"):
        assert found[key] == sum(s[key] for s in found["shards"]) > 0
    assert found["num_tokens"] == sum(len(t) + 2 for t in texts)
    assert found["num_tokens"] + found["num_padding"] == found["num_samples"] * LENGTH
    assert found["documents"] == 10 and found["format_version"] == 1


def test_a_changed_shard_is_noticed_and_named(made):
    _, parts, split = made
    file = Path(parts[1].shards[0].path)
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(data)
    with pytest.raises(MlmError, match=rf"{file.name}: its content changed") as caught:
        check_shards(merged_manifest(parts, split))
    assert parts[0].shards[0].name not in str(caught.value)


def test_shards_that_do_not_belong_together_are_no_manifest(made):
    _, (first, part, last), split = made
    for change, problem in (
        ({"tokenizer_sha256": "0"}, "tokenizer_sha256 is 0"),
        ({"corpus_sha256": "0"}, "corpus_sha256 is 0"),
        ({"documents": 1}, "8 of the corpus's 10 documents"),
    ):
        with pytest.raises(MlmError, match=problem):
            merged_manifest([first, dataclasses.replace(part, **change), last], split)
