import os
import time
from pathlib import Path

import pytest

from mlm.foundations.artefacts import (
    made_from,
    portable,
    read_artefact,
    settings_digests,
    write_artefact,
)
from mlm.foundations.digests import FileMemory, file_sha256, result_sha256
from mlm.foundations.errors import MlmError
from mlm.foundations.input_checks import check_inputs
from mlm.foundations.job import record_job

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


CORPUS = ["results/corpus.json", "results/train.parquet"]
MODEL = ["results/training.json", "results/model.safetensors"]
EVALUATION = ["results/evaluation.json"]


@pytest.fixture
def job(here):
    (here / "results").mkdir()

    def run(rule, inputs, outputs, **params):
        digests = check_inputs(inputs)
        write_artefact(outputs[0], {"of": rule})
        for path in outputs[1:]:
            Path(path).write_text(f"{rule} {params}")
        record_job(rule, digests, params, outputs)

    run("corpus", [], CORPUS)
    run("pretrain", CORPUS, MODEL, rate=0.1)
    run("evaluate", [*MODEL, CORPUS[0]], EVALUATION)
    return run


def test_what_a_job_was_made_from_stands_in_its_artefact(job):
    record = made_from(MODEL[0])
    assert record.rule == "pretrain"
    assert record.inputs == {path: file_sha256(path) for path in CORPUS}
    assert record.outputs == {MODEL[1]: file_sha256(MODEL[1])}
    assert record.settings == settings_digests({"rate": 0.1})
    assert check_inputs([*MODEL, *EVALUATION]).keys() == {*MODEL, *EVALUATION}


def test_a_record_with_other_fields_is_damage_with_its_remedy(job):
    write_artefact(MODEL[0], {"made_from": {"rule": "pretrain", "host": "a"}})
    with pytest.raises(MlmError, match=r"training\.json is damaged.*rm results/training\.json"):
        made_from(MODEL[0])


def test_a_damaged_file_is_named_unless_the_job_checks_it_itself(job):
    recorded = file_sha256(MODEL[1])
    os.truncate(MODEL[1], 0)
    with pytest.raises(MlmError, match=r"model\.safetensors is damaged.*rm results/model"):
        check_inputs(MODEL)
    assert check_inputs(MODEL, unread=MODEL[1:])[MODEL[1]] == recorded


def test_a_result_of_another_model_is_refused_by_name(job):
    job("pretrain", CORPUS, MODEL, rate=0.2)
    with pytest.raises(MlmError, match=r"do not belong together.*rm results/evaluation\.json"):
        check_inputs([*MODEL, *EVALUATION])


CURVES = "step,loss,tokens_per_second\n1,3.5,100.0\n2,3.25,120.5\n"


def test_speeds_are_left_out_of_a_tables_digest_and_all_else_counts(tmp_path):
    def digest(text):
        (tmp_path / "training.csv").write_text(text)
        return result_sha256(tmp_path / "training.csv")

    assert digest(CURVES) == digest(CURVES.replace("120.5", "7"))
    others = ["3.25", "3.26"], ["120.5", "12x.5"], ["step", "Step"], ["2,3.25,120.5\n", ""]
    assert len({digest(CURVES), *(digest(CURVES.replace(a, b)) for a, b in others)}) == 5


def test_a_change_that_keeps_size_date_and_inode_is_seen(tmp_path, monkeypatch):
    """As an edit in place followed by `touch -r` does: the inode's change date tells."""
    monkeypatch.setattr("mlm.foundations.digests._SETTLED_SECONDS", -1.0)
    path, memory = tmp_path / "x", FileMemory(None)
    path.write_text("one")
    before, times = memory.sha256(path), path.stat()
    time.sleep(0.05)
    with open(path, "r+") as handle:
        handle.write("two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert memory.sha256(path) != before


@pytest.mark.parametrize("settled", [True, False])
def test_the_memory_of_settled_files_outlives_the_process(tmp_path, monkeypatch, settled):
    monkeypatch.setattr("mlm.foundations.digests._SETTLED_SECONDS", -1.0 if settled else 60.0)
    path, place = tmp_path / "x", tmp_path / "memory.json"
    path.write_text("one")
    memory = FileMemory(place)
    memory.sha256(path)
    memory.save()
    assert (FileMemory(place).value("sha256", path, lambda _: "anew") == "anew") != settled
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
