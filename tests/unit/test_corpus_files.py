import bz2
import gzip
import lzma
import os
import random
from pathlib import Path

import pytest
import zstandard
from corpus_files import build, described, files, refused
from tests.conftest import refusal

from mlm.config.corpus import Files
from mlm.config.overlays import all_named_files, resolve
from mlm.corpus.source_files import matched_files
from mlm.foundations.errors import MlmError

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["**/*.txt", "b.txt"], ["a.txt", "a1.txt", "a[1].txt", "b.txt", "c/d/y.txt", "c/x.txt"]),
        (["a[1].txt"], ["a[1].txt"]),
        (["a[0-9].txt"], ["a1.txt"]),
    ],
)
def test_files_are_read_in_the_order_of_their_names_each_once(patterns, found):
    for name in ("b", "a", "a1", "a[1]", "c/x", "c/d/y"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(f"{name}.txt").write_text(f"text {name}\n", encoding="utf-8")
    assert matched_files(Files(train=patterns))["train"] == found


def test_an_artefact_names_no_directory_of_this_machine(tmp_path):
    Path("train.txt").write_text("text\n", encoding="utf-8")
    build(files(train=str(tmp_path / "train.txt")))
    assert str(tmp_path) not in Path("results/corpus/train.json").read_text(encoding="utf-8")
    assert described("train")["source"]["files"][0]["path"] == "train.txt"


PACKED = gzip.compress(random.Random(0).randbytes(9999).hex().encode(), mtime=0)
REFUSALS = [
    ("txt", b"good\nbad \xff\xfe\n", ["train.txt, line 2, byte offset 9", "0xff"]),
    ("txt", b"one\n\xed\x95", ["line 2, byte offset 4", "not UTF-8"]),
    ("txt", b"a\nb\0c\n", ["train.txt, line 2, byte offset 3", "NUL"]),
    ("txt", b"", ["train.txt is empty (0 bytes)"]),
    ("txt.gz", PACKED[:-9], ["train.txt.gz", "cut off"]),
    ("txt.gz", PACKED[:20] + b"\xff" * 8, ["damaged"]),
    ("txt.gz", gzip.compress(b"a\n", mtime=0) + b"\0\0b", ["damaged", "Not a gzipped file"]),
    ("txt.xz", lzma.compress(b"abc\n" * 99)[:-3], ["train.txt.xz", "cut off"]),
    ("txt.bz2", bz2.compress(b"abc\n" * 99)[:-3], ["train.txt.bz2", "cut off"]),
    ("json", b'[{"text": "a"}]', ["train.json, line 1", "jq -c '.[]'"]),
    ("txt.zst", zstandard.compress(b"abc\n" * 99)[:-3], ["train.txt.zst", "cut off"]),
    ("jsonl", b'{"text": "a"}\n{"text": "b\\u0000"}', ["train.jsonl, line 2", "NUL"]),
    ("jsonl", b'{"text": "\\ud83d"}', ["line 1", "surrogate (U+D83D)"]),
    ("jsonl", b'{"text": "a"}\n\n{"text": "b\n', ["line 3", "no valid JSON"]),
    ("jsonl", b'{"body": "a"}\n', ["line 1", "'text'", "'body'"]),
    ("jsonl", b'{"text": "a"}\n{"text": 5}\n', ["line 2", "a number"]),
    ("csv", b"id,body\n1,a\n", ["train.csv, line 1", "'text'", "'id', 'body'"]),
    ("csv", b"id,text\n1,a\n2,b,c\n", ["line 3", "3 fields", "names 2"]),
    ("csv", b'text\na\n"b\nc\n', ["train.csv, line 3", "quote"]),
    ("csv", b"text\na\rb\nc\n", ["line 2", "new-line character"]),
    ("parquet", b"PAR1 nonsense", ["train.parquet", "no whole parquet file"]),
]


@pytest.mark.parametrize(("ending", "data", "words"), REFUSALS)
def test_bad_input_is_refused_with_its_place_and_leaves_nothing(ending, data, words):
    Path(f"train.{ending}").write_bytes(data)
    message = refused(files())
    for word in words:
        assert word in message


def test_names_that_cannot_be_read_are_all_told_at_once(tmp_path):
    for name in ("data/a.docx", "data/{brace}.txt.gz", "both.txt", "data/a\x1bb.txt"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("x\n")
    Path("data/link.txt").symlink_to("/nowhere/b.txt")
    os.mkfifo("data/pipe.txt")
    Path(os.fsdecode(b"data/caf\xe9.txt")).write_text("text\n", encoding="utf-8")
    train = ["data/*", "both.txt", "absent/*.txt", "data/*.csv"]
    message = refusal(matched_files, Files(train=train, test=["both.txt", "data"]))
    message.encode("utf-8")
    lines = [line for line in message.splitlines() if line.startswith("  - ")]
    names = ["data/a.docx", "data/link.txt", "data/pipe.txt", "data/{brace}.txt.gz", r"data/a\x1bb"]
    names += [r"data/caf\xe9.txt", "test: both.txt", "'absent/*.txt'", "'data/*.csv'", "'data' is"]
    assert len(lines) == len(names)
    for name in names:
        assert sum(name in line for line in lines) == 1, name


@pytest.mark.parametrize(
    "sections",
    [
        {"finetune": {"data": {"source": "csv", "file": "~/a.csv"}}},
        {"evaluation": {"minimal_pair_files": ["$HOME/a.tsv"]}},
        {"tokenizer": {"kind": "pretrained", "pretrained": {"path": "$HOME/tokenizer"}}},
        {"pretraining": {"checkpoint": {"directory": "~/states"}}},
    ],
)
def test_no_path_is_expanded_and_that_is_said(sections):
    with pytest.raises(MlmError, match="not expanded"):
        all_named_files(resolve(sections))


@pytest.mark.parametrize("pattern", ["**/*.parquet", "results/corpus/*.parquet", "{}/**/*.parquet"])
def test_a_pattern_that_meets_the_results_of_the_workflow_is_refused(
    pattern, tmp_path, monkeypatch
):
    Path("results/corpus").mkdir(parents=True)
    Path("results/corpus/train.parquet").write_bytes(b"x")
    pattern = pattern.format(tmp_path)
    said = refusal(matched_files, Files(train=[pattern]))
    assert "results/corpus, which the workflow itself" in said and pattern in said
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    found = matched_files(Files(train=["../results/**/*.parquet"]))
    assert found["train"] == ["../results/corpus/train.parquet"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user and come back")
def test_what_may_not_be_read_is_named(tmp_path):
    Path("no.txt").write_text("one\n")
    Path("no.txt").chmod(0)
    tmp_path.chmod(0o777)
    os.seteuid(65534)
    try:
        said = refusal(matched_files, Files(train=["no.txt"]))
    finally:
        os.seteuid(0)
    assert "chmod u+r no.txt" in said
