"""Artefacts say what they were made from; whoever reads them checks that it is still so."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from mlm.foundations.artefacts import (
    check_inputs,
    made_from,
    portable,
    read_artefact,
    record_job,
    result_sha256,
    settings_digests,
    write_artefact,
)
from mlm.foundations.digests import FileMemory, file_sha256
from mlm.foundations.errors import MlmError


def test_an_artefact_comes_back_as_it_was_written(tmp_path):
    write_artefact(tmp_path / "a.json", {"b": [1, 2.5, None], 10: "x", 9: "ü"})
    assert read_artefact(tmp_path / "a.json") == {"b": [1, 2.5, None], "10": "x", "9": "ü"}


DAMAGES = {
    "flipped": lambda content: content.replace(b"3.25", b"3.26"),
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "no object": lambda content: b"[1]",
    "another encoding": lambda content: b"\xff\xfe" + content,
    "no seal": lambda content: b'{"loss": 3.25}',
    "not a number": lambda content: content.replace(b"3.25", b"NaN"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_artefact_is_named_with_the_command_that_mends_it(tmp_path, damage):
    path = tmp_path / "evaluation.json"
    write_artefact(path, {"loss": 3.25})
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(MlmError, match=r"evaluation\.json is damaged.*rm .*evaluation\.json"):
        read_artefact(path)


@pytest.mark.parametrize(
    "path", ["results/a/b.json", ".snakemake/storage/gcs/x/results/a/b.json", "/p/results/a/b.json"]
)
def test_a_result_has_one_name_wherever_it_lies(path):
    assert portable(path) == "results/a/b.json"


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A corpus, a model made from it, and an evaluation of that: each with its record."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()

    def job(rule, inputs, outputs, **params):
        digests = check_inputs(inputs)
        for path in outputs:
            if path.endswith(".json"):
                write_artefact(path, {"of": rule})
            else:
                (tmp_path / path).write_text(f"{rule} {params}")
        record_job(rule, digests, params, outputs)

    job("corpus", [], ["results/train.parquet", "results/corpus.json"])
    job(
        "pretrain",
        ["results/train.parquet", "results/corpus.json"],
        ["results/model.safetensors", "results/training.json"],
        rate=0.1,
    )
    job(
        "evaluate",
        ["results/model.safetensors", "results/training.json", "results/corpus.json"],
        ["results/evaluation.json"],
    )
    return job


ALL = ["results/corpus.json", "results/training.json", "results/evaluation.json"]


def test_what_a_job_was_made_from_stands_in_its_artefact(results):
    record = made_from(read_artefact("results/training.json"))
    assert record.rule == "pretrain"
    assert record.inputs == {p: file_sha256(p) for p in ("results/train.parquet", ALL[0])}
    assert record.outputs == {"results/model.safetensors": file_sha256("results/model.safetensors")}
    assert record.settings == settings_digests({"rate": 0.1})


def test_a_chain_that_holds_together_is_accepted(results):
    assert set(check_inputs([*ALL, "results/model.safetensors"])) == {
        *ALL,
        "results/model.safetensors",
    }


def test_a_damaged_file_is_named_by_whoever_reads_it(results):
    with open("results/model.safetensors", "a") as handle:
        handle.write("x")
    with pytest.raises(MlmError, match=r"model\.safetensors is damaged.*rm results/model"):
        check_inputs(["results/model.safetensors", "results/training.json"])


def test_a_file_that_the_job_checks_itself_is_not_read(results):
    os.truncate("results/model.safetensors", 0)
    files = ["results/model.safetensors", "results/training.json"]
    recorded = made_from(read_artefact("results/training.json")).outputs
    assert check_inputs(files, unread=files[:1])[files[0]] == recorded[files[0]]


def test_a_result_of_another_model_is_refused_by_name(results):
    results(
        "pretrain",
        ["results/train.parquet", "results/corpus.json"],
        ["results/model.safetensors", "results/training.json"],
        rate=0.2,
    )
    with pytest.raises(MlmError, match=r"do not belong together.*rm results/evaluation\.json"):
        check_inputs(ALL)


def test_a_param_that_is_new_each_time_is_no_setting():
    params = {"asked": time.time_ns(), "operational": {"keep": 2}, "x": 1}
    assert settings_digests(params) == settings_digests({"x": 1})


CURVES = "step,loss,tokens_per_second\n1,3.5,100.0\n2,3.25,120.5\n"


def test_speeds_are_left_out_of_a_tables_digest_and_all_else_counts(tmp_path):
    def digest(text):
        (tmp_path / "training.csv").write_text(text)
        return result_sha256(tmp_path / "training.csv")

    assert digest(CURVES) == digest(CURVES.replace("120.5", "7"))
    others = ["3.25", "3.26"], ["120.5", "12x.5"], ["step", "Step"], ["2,3.25,120.5\n", ""]
    assert len({digest(CURVES), *(digest(CURVES.replace(a, b)) for a, b in others)}) == 5


def test_the_recipe_of_the_docs_recomputes_the_digest_of_a_table(tmp_path, monkeypatch, capsys):
    page = Path(__file__).parents[2] / "docs" / "report.md"
    (recipe,) = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    table = tmp_path / "results" / "runs" / "base" / "training.csv"
    table.parent.mkdir(parents=True)
    table.write_text(CURVES)
    monkeypatch.chdir(tmp_path)
    exec(recipe, {})
    assert capsys.readouterr().out.strip() == result_sha256(table)


@pytest.fixture
def settled(monkeypatch):
    """Files are remembered though they have just changed."""
    monkeypatch.setattr("mlm.foundations.digests._SETTLED_SECONDS", -1.0)


def test_a_change_that_keeps_size_date_and_inode_is_seen(tmp_path, settled):
    """As an edit in place followed by `touch -r` does: the inode's change date tells."""
    path, memory = tmp_path / "x", FileMemory(None)
    path.write_text("one")
    before, times = memory.sha256(path), path.stat()
    time.sleep(0.05)
    with open(path, "r+") as handle:
        handle.write("two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert memory.sha256(path) != before


def remembered(path: Path, place: Path) -> dict:
    """What the memory at `place` holds once it was asked for the file's digest."""
    path.write_text("one")
    memory = FileMemory(place)
    memory.sha256(path)
    memory.save()
    return json.loads(place.read_text()) if place.exists() else {}


def test_a_file_that_has_just_changed_is_not_remembered(tmp_path):
    assert remembered(tmp_path / "x", tmp_path / "memory.json") == {}


def test_the_memory_outlives_the_process_and_a_damaged_one_costs_time_only(tmp_path, settled):
    path, place = tmp_path / "x", tmp_path / "memory.json"
    assert remembered(path, place)
    assert FileMemory(place).value("sha256", path, pytest.fail) == file_sha256(path)
    place.write_text("{")
    assert FileMemory(place).sha256(path) == file_sha256(path)


def test_a_large_source_is_told_by_size_and_date(tmp_path, monkeypatch):
    monkeypatch.setattr("mlm.foundations.digests.LARGEST_READ", 2)
    path, memory, now = tmp_path / "x", FileMemory(None), time.time()
    found = []
    for text, age in (("three", 100), ("THREE", 100.5)):
        path.write_text(text)
        os.utime(path, (now - age,) * 2)
        found.append(memory.identity(path))
    assert found[0] != found[1]
