from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_tokenizer import CharacterTokenizer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlm.config.tokenizer import Shards
from mlm.corpus.artefacts import document_range, overlapping
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.samples.sharding import write_shard
from mlm.samples.tfrecord import decode_samples, read_records

LENGTH = 8


def corpus_of(directory: Path, texts, row_group_size=3, groups=None) -> Path:
    path = directory / "train.parquet"
    groups = range(len(texts)) if groups is None else groups
    table = pa.table({"text": pa.array(texts, pa.string()), "group": groups})
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


def make(directory: Path, corpus: Path, shard=0, shards=1, batch=2):
    tokenizer = directory / "tokenizer.json"
    tokenizer.write_text("{}")
    section = Shards(sequence_length=LENGTH)
    file = directory / f"train-{shard:05d}-of-{shards:05d}.tfrecord"
    encoder = CharacterTokenizer()
    documents = SplitDocuments([(corpus, pq.read_metadata(corpus).num_rows)])
    with mock.patch("mlm.samples.packing.DOCUMENTS_AT_A_TIME", batch):
        made = write_shard("train", shard, shards, section, encoder, tokenizer, documents, file)
    return file, made


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
    corpus = corpus_of(tmp_path, texts, data.draw(st.integers(1, 9)))
    out, summaries = [], []
    for shard in range(shards):
        file, summary = make(tmp_path, corpus, shard, shards, batch=batch)
        out += tokens_of(file)
        summaries.append(summary)
    assert out == [t for document in CharacterTokenizer().encode(texts) for t in document]
    assert sum(s.num_tokens for s in summaries) == len(out) == sum(s.tokens_in for s in summaries)
    assert sum(s.documents for s in summaries) == len(texts)


@pytest.mark.parametrize("shards", [1, 3])
def test_every_token_has_the_group_of_its_document_whatever_the_shards(tmp_path, shards):
    texts = ["one", "two words", "three", "and four", "five", "and then six"]
    groups = ["speech a", "speech b", "speech b", "speech a", "speech a", "speech c"]
    corpus = corpus_of(tmp_path, texts, groups=groups)
    files = [make(tmp_path, corpus, i, shards)[0] for i in range(shards)]
    found = [g for file in files for g in read(file, grouped=True)[2].flat if g >= 0]
    lengths = [len(ids) for ids in CharacterTokenizer().encode(texts)]
    expected = [g for g, n in zip(groups, lengths, strict=True) for _ in range(n)]
    named = dict(zip(found, expected, strict=True))
    assert len(named) == 3 and [named[g] for g in found] == expected


def test_what_cannot_be_divided_is_refused_and_special_strings_are_counted(tmp_path):
    corpus = corpus_of(tmp_path, ["a [MASK] b", "[MASK][MASK]"])
    assert make(tmp_path, corpus)[1].special_literals == 3
    with pytest.raises(MlmError, match=r"shards\.count\.train to at most 2"):
        make(tmp_path, corpus, 0, 3)
    pq.write_table(pa.table({"text": ["a", "b"]}), corpus)
    with pytest.raises(MlmError, match="no column 'group'"):
        make(tmp_path, corpus)
