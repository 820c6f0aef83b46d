import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import build, described
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from test_corpus_sources import WRITERS
from tests.conftest import refusal

ROWS = [(f"text {i}", group) for i, group in enumerate(["b", "a", "b", "7", "é", "a"])]


def section(files: dict[str, list[str]], **changes) -> dict:
    return {"source": "files", "files": files, "group_by": "author"} | changes


def write(path: Path, rows: list[tuple]) -> Path:
    """`rows` of text and author in the format that the ending of `path` names."""
    kind, names = path.suffix[1:], ("text", "author")
    if kind == "parquet":
        pq.write_table(pa.table(list(zip(*rows, strict=True)), names), path)
    elif kind in ("jsonl", "json"):
        path.write_text(
            "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
        )
    else:
        separator = "," if kind == "csv" else "\t"
        lines = [names, *([("" if v is None else str(v)) for v in row] for row in rows)]
        path.write_text("".join(separator.join(line) + "\n" for line in lines))
    return path


def grouped(directory: Path, kind: str, rows=ROWS, **changes) -> dict[str, list]:
    others = {"validation": [("v", "a"), ("w", "b")], "test": [("t", "a"), ("u", "b")]}
    given = {"train": rows} | others
    files = {s: [str(write(directory / f"{s}.{kind}", r))] for s, r in given.items()}
    build(section(files, **changes), 0, directory)
    return {s: pq.read_table(directory / f"{s}.parquet")["group"].to_pylist() for s in given}


@pytest.mark.parametrize("kind", sorted(set(WRITERS) - {"txt"}))
def test_a_column_names_the_groups_in_every_format_that_has_columns(tmp_path, kind):
    assert grouped(tmp_path, kind)["train"] == [group for _, group in ROWS]
    found = described("train", tmp_path)
    assert (found["groups"], found["group_by"]) == (4, "author")
    rows = [("one", 3), ("two", 10**12), ("three", 3)]
    assert grouped(tmp_path, kind, rows)["train"] == ["3", str(10**12), "3"]
    assert "corpus.group_by" in refusal(grouped, tmp_path, kind, group_by="speaker")


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv", "tsv"])
@pytest.mark.parametrize("value", [None, ""])
def test_a_document_without_a_group_or_with_one_of_another_type_is_named(tmp_path, kind, value):
    row = "line 3" if kind in ("csv", "tsv") else "line 2" if kind == "jsonl" else "row 2"
    rows = [("one", "a"), ("two", value)]
    assert f"train.{kind}, {row}: 'author'" in refusal(grouped, tmp_path, kind, rows)
    for other in (1.5, True, [1], 2**64) if kind == "jsonl" else ():
        assert "line 1: 'author'" in refusal(grouped, tmp_path, kind, [("one", other)])


TEXTS = {
    "train": " Before all . \n = Robert Boulter = \n\n He is an actor . \n = = Career = = \n"
    " A role . \n = = = 2004 – present = = = \n = Gold dollar = \n A coin . \n",
    "validation": "v\n = A = \nw\n",
    "test": "t\n",
}


@pytest.mark.parametrize(
    ("per", "groups"), [("heading", ["Robert Boulter"] * 5 + ["Gold dollar"] * 2), ("file", None)]
)
def test_a_heading_or_a_file_groups_its_lines(tmp_path, per, groups):
    files = {split: [str(tmp_path / f"{split}.txt")] for split in TEXTS}
    for split, text in TEXTS.items():
        Path(files[split][0]).write_text(text)
    files["train"].append(str(tmp_path / "z.txt"))
    Path(files["train"][1]).write_text("more\n")
    build(section(files, group_by=None, group_per=per), 0, tmp_path)
    found = pq.read_table(tmp_path / "train.parquet")["group"].to_pylist()
    # No directory of this machine, and still told apart from a file of the same name.
    assert found[0].startswith("train.txt ") and str(tmp_path) not in found[0]
    assert found[1:-1] == (groups or [found[0]] * 7) and found[-1].startswith("z.txt ")
    assert described("train", tmp_path)["group_by"] == per


@given(
    lengths=st.lists(st.integers(1, 30), min_size=60, max_size=120), seed=st.integers(0, 2**32 - 1)
)
@hypothesis_settings(max_examples=5, deadline=None)
def test_no_group_is_on_both_sides_of_a_carved_split(tmp_path_factory, lengths, seed):
    directory = tmp_path_factory.mktemp("carved")
    rows = [(f"{i} {j}", f"author {i}") for i, n in enumerate(lengths) for j in range(n)]
    train = write(directory / "train.jsonl", rows)
    held_out = {"validation": 0.25, "test": 0.25}
    build(section({"train": [str(train)]}, held_out=held_out), seed, directory)
    tables = [pq.read_table(directory / f"{s}.parquet") for s in ("train", "validation", "test")]
    groups = [set(table["group"].to_pylist()) for table in tables]
    assert not (groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])
    assert sum(map(len, groups)) == len(lengths)
    for table in tables:
        numbers = [tuple(map(int, text.split())) for text in table["text"].to_pylist()]
        assert numbers == sorted(numbers)
    assert sum(len(table) for table in tables) == len(rows)
