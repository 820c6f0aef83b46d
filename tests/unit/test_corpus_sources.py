import csv
import gzip
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from corpus_files import build, described, files, refused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlm.config.corpus import Corpus
from mlm.corpus.decoding import text_lines
from mlm.corpus.formats import read_documents
from mlm.foundations.errors import MlmError

KOREAN = ["우리 삶의 목표는 배우는 것이다.", "서울의 겨울은 춥고 길다.", "나는 어제 책을 읽었다."]
JAPANESE = ["私の人生の目標は学ぶことです。", "東京の冬は寒い。", "猫が縁側で眠っている。"]
MIXED = ["Привет 👩‍👩‍👧‍👦 مرحبا naïve 漢字", "🇰🇷 한국어 and हिन्दी 😀", "e\u0301 é ﬁ \u2028 ½"]
ENGLISH = [f"Sentence number {i} of a small English text, with a comma." for i in range(60)]


pytestmark = pytest.mark.usefixtures("here")


def as_separated(texts, separator):
    out = io.StringIO()
    csv.writer(out, delimiter=separator).writerows([["id", "text"], *enumerate(texts)])
    return out.getvalue().encode()


def as_parquet(texts):
    out = io.BytesIO()
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), out)
    return out.getvalue()


WRITERS = {
    "txt": lambda texts: "".join(text + "\n" for text in texts).encode(),
    "jsonl": lambda texts: "".join(json.dumps({"id": 1, "text": t}) + "\n" for t in texts).encode(),
    "csv": lambda texts: as_separated(texts, ","),
    "tsv": lambda texts: as_separated(texts, "\t"),
    "parquet": as_parquet,
}
COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("compression", COMPRESSORS)
def test_every_format_and_compression_gives_the_same_documents(kind, compression):
    texts = ENGLISH + KOREAN + JAPANESE + MIXED + ['He said "no", twice.', "tab\there"]
    data = COMPRESSORS[compression](WRITERS[kind](texts))
    Path(f"train.{kind}{compression}").write_bytes(data)
    assert build(files())["train"] == texts


#: Any Unicode text but NUL, which the policy `strict` refuses (surrogates are no text at all).
unicode_texts = st.lists(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1),
    min_size=1,
    max_size=8,
).filter(lambda texts: any(text.strip() for text in texts))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])
@given(texts=unicode_texts)
@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_columns_hold_any_unicode(kind, texts):
    found = read_documents(io.BytesIO(WRITERS[kind](texts)), "any", kind, Corpus())
    assert [document.text for document in found] == texts


@given(texts=unicode_texts, end=st.sampled_from(["\n", "\r\n"]))
@settings(deadline=None, max_examples=60)
def test_lines_end_with_line_feeds_alone(texts, end):
    lines = [text.replace("\n", " ").rstrip("\r").lstrip("\ufeff") for text in texts]
    stream = io.BytesIO(end.join([*lines, ""]).encode())
    assert [d.text for d in read_documents(stream, "any", "txt", Corpus())] == lines


@given(st.lists(st.binary(max_size=6), max_size=12))
@settings(deadline=None, max_examples=200)
def test_the_place_that_is_named_is_that_of_the_first_bad_byte(parts):
    data, message = b"\n".join(parts), ""
    try:
        list(text_lines(io.BytesIO(data), "any", Corpus()))
    except MlmError as error:
        message = str(error)
    if b"\r" in data and b"\n" not in data:
        assert "lines end in CR alone" in message
        return
    bad = {data.find(b"\0")} - {-1}
    try:
        data.decode()
    except UnicodeDecodeError as error:
        bad.add(error.start)
    if not bad:
        assert not message
        return
    found = re.match(r"any, line (\d+), byte offset (\d+):", message)
    line = data.count(b"\n", 0, min(bad)) + 1
    assert int(found[2]) in bad and int(found[1]) == line


@pytest.mark.parametrize(
    ("per", "text", "documents"),
    [
        (
            "line",
            "\ufeffa\u2028b\x0bc\x85d\r\n e \nf\rg\nh",
            ["a\u2028b\x0bc\x85d", " e ", "f\rg", "h"],
        ),
        ("paragraph", "\r\n\r\na\r\nb\r\n \t\r\n\r\nc\n\nd", ["a\nb", "c", "d"]),
        ("file", "a\n\nb\n", ["a\n\nb"]),
    ],
)
def test_a_document_is_a_line_a_paragraph_between_blank_lines_or_a_file(per, text, documents):
    Path("train.txt").write_bytes(text.encode())
    assert build(files(files={"document_per": per}))["train"] == documents


def test_a_csv_field_may_hold_separators_quotes_and_line_ends():
    Path("train.tsv").write_bytes(b'id\ttext\n1\t"open\n2\t"Yes" he said\n')
    assert "quoted_fields" in refused(files("train.tsv"))
    unquoted = files("train.tsv", files={"quoted_fields": False})
    assert build(unquoted)["train"] == ['"open', '"Yes" he said']
    Path("train.csv").write_bytes(b'id,text\n1,"a, ""b""\nc"\n\n2,d\n')
    assert build(files("train.csv"))["train"] == ['a, "b"\nc', "d"]


def test_members_and_frames_one_after_the_other_are_one_file_and_zeros_are_padding():
    for name, compress in (("train.txt.gz", gzip.compress), ("train.txt.zst", zstandard.compress)):
        Path(name).write_bytes(compress(b"one\n") + compress(b"two\n"))
        assert build(files(train=name))["train"] == ["one", "two"]
    padded = gzip.compress(b"one\n") + b"\0" * 70_000 + gzip.compress(b"two\n") + b"\0"
    Path("train.txt.gz").write_bytes(padded)
    assert build(files(train="train.txt.gz"))["train"] == ["one", "two"]


def test_a_parquet_column_that_is_no_text_is_refused():
    data = pa.array([b"good", b"b\xffd"], pa.binary())
    no_utf8 = pa.Array.from_buffers(pa.string(), 2, data.buffers())
    twice = pa.table([["a"], ["b"]], schema=pa.schema([("text", pa.string())] * 2))
    for table, told in (
        (twice, "2 columns are called 'text'"),
        (pa.table({"text": [1, 2]}), "is of type int64, expected string"),
        (pa.table({"text": no_utf8}), "rows 1 to 2: a text is not UTF-8"),
    ):
        pq.write_table(table, "train.parquet")
        message = refused(files())
        assert "train.parquet" in message and told in message


def test_replacing_is_counted_in_the_split_it_happened_in():
    Path("train.txt").write_bytes(b"good\nb\xff\xfed\nn\0l \xed\x95\n" + "a \ufffd".encode())
    assert build(files(encoding_errors="replace"))["train"] == [
        *("good", "b\ufffd\ufffdd", "n\ufffdl \ufffd\ufffd", "a \ufffd")
    ]
    assert described("train")["encoding"] == {"replaced_bytes": 4, "nul_bytes": 1}
    assert described("test")["encoding"] == {"replaced_bytes": 0, "nul_bytes": 0}
