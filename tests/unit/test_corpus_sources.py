import bz2
import csv
import gzip
import io
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from corpus_files import build, described, files, refused
from tests.conftest import refusal

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
WRITERS["json"] = WRITERS["jsonl"]
COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}
COMPRESSORS |= {".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize(
    ("kind", "compression"),
    [*((kind, "") for kind in WRITERS), *(("txt", ending) for ending in COMPRESSORS if ending)],
)
def test_every_format_and_compression_gives_the_same_documents(kind, compression):
    texts = ENGLISH + KOREAN + JAPANESE + MIXED + ['He said "no", twice.']
    texts += ["tab\there"] if kind != "tsv" else []
    data = COMPRESSORS[compression](WRITERS[kind](texts))
    Path(f"train.{kind}{compression}").write_bytes(data)
    assert build(files())["train"] == texts


@pytest.mark.parametrize(
    ("per", "text", "documents"),
    [
        ("line", "\ufeffa\u2028b\x85c\r\n e \nf\rg\nh", ["a\u2028b\x85c", " e ", "f\rg", "h"]),
        ("paragraph", "\r\n\r\na\r\nb\r\n \t\r\n\r\nc\n\nd", ["a\nb", "c", "d"]),
        ("file", "a\n\nb\n", ["a\n\nb"]),
    ],
)
def test_a_document_is_a_line_a_paragraph_between_blank_lines_or_a_file(per, text, documents):
    Path("train.txt").write_bytes(text.encode())
    assert build(files(files={"document_per": per}))["train"] == documents


def test_a_csv_field_may_hold_separators_quotes_and_line_ends():
    Path("train.csv").write_bytes(b'id,text\n1,a\n2,b "c" d\n3,"e\n')
    assert "train.csv, line 4" in refused(files("train.csv"))
    Path("train.csv").write_bytes(b'id,text\n1,a\n2,b "c" d\n')
    assert build(files("train.csv"))["train"] == ["a", 'b "c" d']
    Path("train.csv").write_bytes(b'id,text\n1,"a, ""b""\nc"\n\n2,d\n')
    assert build(files("train.csv"))["train"] == ['a, "b"\nc', "d"]


def test_a_line_of_a_table_of_tabs_is_a_row_whatever_its_quotes():
    rows = {'"Open, 3': '"Open, 3', 'the gate"': 'the gate"', '"Yes," he said.': '"Yes," he said.'}
    rows |= {'a "quoted" word': 'a "quoted" word', '"the ""end"""': 'the "end"', '"plain"': "plain"}
    Path("train.tsv").write_text("\n".join(["id\ttext", *(f"1\t{row}" for row in rows), ""]))
    assert build(files("train.tsv"))["train"] == list(rows.values())
    Path("train.tsv").write_text('id\ttext\n1\t"two\nlines"\n')
    assert "train.tsv, line 3" in refusal(build, files("train.tsv"))


def test_members_and_frames_one_after_the_other_are_one_file_and_zeros_are_padding():
    for ending, compress in COMPRESSORS.items():
        Path(f"train.txt{ending}").write_bytes(compress(b"one\n") + compress(b"two\n"))
        assert build(files(train=f"train.txt{ending}"))["train"] == ["one", "two"]
    padded = gzip.compress(b"one\n") + b"\0" * 70_000 + gzip.compress(b"two\n") + b"\0"
    Path("train.txt.gz").write_bytes(padded)
    assert build(files(train="train.txt.gz"))["train"] == ["one", "two"]


def test_a_parquet_column_that_is_no_text_is_refused():
    data = pa.array([b"good", b"b\xffd"], pa.binary())
    no_utf8 = pa.Array.from_buffers(pa.string(), 2, data.buffers())
    twice = pa.table([["a"], ["b"]], schema=pa.schema([("text", pa.string())] * 2))
    for table, told in (
        (twice, "2 columns are called 'text'"),
        (pa.table({"text": [1, 2]}), "row 1: 'text' holds a number, expected text"),
        (pa.table({"text": no_utf8}), "rows 1 to 2: a text is not UTF-8"),
    ):
        pq.write_table(table, "train.parquet")
        message = refused(files())
        assert "train.parquet" in message and told in message
    pq.write_table(pa.table({"text": ["a"], "meta": [{"id": 1}]}), "train.parquet")
    assert "corpus.group_by" in refused(files(group_by="meta"))


def test_byte_order_marks_of_joined_files_are_removed_and_counted():
    mark = "\ufeff"
    Path("train.txt").write_text(f"{mark}one\n{mark}two\nsay {mark}three\n{mark}one\n")
    assert build(files())["train"] == ["one", "two", f"say {mark}three"]
    assert described("train")["encoding"]["byte_order_marks"] == 2
    Path("train.txt").unlink()
    Path("train.jsonl").write_text('{"text": "one"}\n' + mark + '{"text": "two"}\n')
    assert build(files())["train"] == ["one", "two"]


@pytest.mark.parametrize("ending", ["txt", "jsonl.gz", "parquet"])
def test_what_was_not_fetched_is_no_text(ending):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab12\nsize 734003200\n"
    for content in (pointer, f"\ufeff{pointer}"):
        Path(f"train.{ending}").write_text(content, encoding="utf-8")
        message = refused(files())
        assert f"train.{ending}" in message and "git lfs pull" in message


def test_replacing_is_counted_in_the_split_it_happened_in():
    Path("train.txt").write_bytes(b"good\nb\xff\xfed\nn\0l \xed\x95\n" + "a \ufffd".encode())
    assert build(files(encoding_errors="replace"))["train"] == [
        *("good", "b\ufffd\ufffdd", "n\ufffdl \ufffd\ufffd", "a \ufffd")
    ]
    assert described("train")["encoding"] == {
        **{"replaced_bytes": 4, "nul_bytes": 1, "byte_order_marks": 0}
    }
    assert not any(described("test")["encoding"].values())
