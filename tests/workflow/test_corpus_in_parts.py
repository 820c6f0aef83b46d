"""A corpus whose source is read in parts: kills, edits, and another number of parts."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from mlm.config.resolution import resolve
from mlm.corpus.parts import divided
from mlm.foundations.digests import file_sha256
from tests.conftest import users_environment

from .conftest import ROOT, TINY, speeches

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

COMMAND = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile")]
TARGETS = [f"results/corpus/{split}.json" for split in ("train", "validation", "test")]
FINISHED = re.compile(r"Finished jobid: \d+ \(Rule: (\w+)\)")
PARTS = "results/corpus/parts"
#: The rules that read and write a corpus in parts, in their order.
RULES = [
    *("corpus_read", "corpus_deduplicate", "corpus_sign", "corpus_link", "corpus_cluster"),
    *("corpus_write", "corpus_counts", "corpus"),
]


def write_project(place: Path, parts: int) -> None:
    lines = [line for text in speeches(40) for line in text.split(". ") if line.strip()]
    (place / "data").mkdir(parents=True, exist_ok=True)
    for name, some in {"a": lines[:900], "b": lines[800:1600], "c": lines[1600:]}.items():
        (place / "data" / f"{name}.txt").write_text("\n".join(some) + "\n", encoding="utf-8")
    configure(place, parts)


def configure(place: Path, parts: int) -> None:
    corpus = {
        "source": "files",
        "files": {"train": ["data/*.txt"]},
        "count": {"train": 2},
        "filters": {"near_duplicates": {"enabled": True}},
        "parts": parts,
    }
    (place / "own.yaml").write_text(yaml.safe_dump(TINY | {"corpus": corpus}))


def start(place: Path, *more: str) -> subprocess.Popen:
    """Snakemake on the corpus below `place`, its output in log.txt."""
    command = [*COMMAND, "--cores=2", *TARGETS, "--configfile", "own.yaml", *more]
    with open(place / "log.txt", "w") as out:
        environment = users_environment()
        return subprocess.Popen(
            command, cwd=place, env=environment, stdout=out, stderr=out, start_new_session=True
        )


def said(place: Path, *more: str) -> str:
    """What Snakemake says as it ends well."""
    status = start(place, *more).wait(600)
    text = (place / "log.txt").read_text()
    assert status == 0, text[-6000:]
    return text


def planned(place: Path) -> dict[str, int]:
    """How many jobs of each rule a dry run announces."""
    rows = re.findall(r"^(\w+) +(\d+)$", said(place, "--dry-run"), re.M)
    return {rule: int(count) for rule, count in rows if rule not in ("total", "all")}


def digests(place: Path) -> dict[str, str]:
    return {f.name: file_sha256(f) for f in (place / "results/corpus").iterdir() if f.is_file()}


@pytest.fixture(scope="module")
def of_one_job(tmp_path_factory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("one")
    write_project(place, parts=1)
    assert planned(place) == {"corpus": 1}
    said(place)
    return digests(place)


def test_a_kill_in_each_stage_costs_that_job_and_changes_no_byte(tmp_path, of_one_job):
    write_project(tmp_path, parts=4)
    finished = []
    for seen in (
        "00004/read-00001.json",
        "00004/removed-00000.json",
        "00004/signed-00001.json",
        "00004/linked-00000.json",
        "00004/near.json",
        "written/*.json",
        "train.json",
    ):
        run = start(tmp_path)
        end = time.monotonic() + 300
        while not list((tmp_path / PARTS).glob(seen)):
            assert run.poll() is None and time.monotonic() < end, (tmp_path / "log.txt").read_text()
            time.sleep(0.01)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        finished += re.findall(
            r"Finished jobid: \d+ \(Rule: (\w+)\)", (tmp_path / "log.txt").read_text()
        )
    finished += re.findall(r"Finished jobid: \d+ \(Rule: (\w+)\)", said(tmp_path))
    assert digests(tmp_path) == of_one_job
    # What was there stayed: no part was read twice.
    assert finished.count("corpus_read") <= 4
    assert not (tmp_path / PARTS).exists()


def test_another_number_of_parts_reruns_nothing_and_gives_the_same_bytes(tmp_path, of_one_job):
    write_project(tmp_path, parts=7)
    assert planned(tmp_path) == dict(zip(RULES, (7, 4, 7, 4, 1, 4, 1, 1), strict=True))
    said(tmp_path)
    assert digests(tmp_path) == of_one_job
    configure(tmp_path, parts=64)
    assert planned(tmp_path) == {}


def test_an_edit_reads_again_the_parts_that_it_is_in(tmp_path, of_one_job):
    write_project(tmp_path, parts=4)
    # As after a kill just before the end: what the parts left is still there.
    said(tmp_path, "--notemp")
    (tmp_path / "results/corpus/train.json").unlink()
    assert planned(tmp_path) == {"corpus": 1}
    file = tmp_path / "data" / "b.txt"
    text = file.read_bytes()
    file.write_bytes(b"Another text, as long." + text[22:])
    files = sorted((tmp_path / "data").glob("*.txt"))
    parts = divided({"train": list(map(str, files))}, resolve({})["corpus"], 4)
    of_b = [part for part in parts if any(p.path == str(file) for p in part["train"])]
    assert 1 <= len(of_b) < 4
    assert planned(tmp_path) == dict(zip(RULES, (len(of_b), 4, 4, 4, 1, 4, 1, 1), strict=True))
    said(tmp_path)
    made = digests(tmp_path)
    assert made != of_one_job
    other = tmp_path / "one"
    write_project(other, parts=1)
    (other / "data" / "b.txt").write_bytes(file.read_bytes())
    said(other)
    assert digests(other) == made


def test_what_no_part_can_be_made_of_is_said(tmp_path):
    write_project(tmp_path, parts=3)
    corpus = {"source": "embedded", "parts": 3}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(TINY | {"corpus": corpus}))
    text = said(tmp_path, "--dry-run")
    assert "corpus.parts: 3, but the source is read in 1: it cannot be divided further" in text
    assert "rule corpus_read" not in text
