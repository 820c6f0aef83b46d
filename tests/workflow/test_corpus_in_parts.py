"""A corpus whose source is read in parts: kills and edits."""

import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from mlm.corpus.artefacts import CorpusSplit
from mlm.foundations.digests import file_sha256

from .conftest import ROOT, TINY, Project, Run, speeches, start

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

TARGETS = [f"results/corpus/{split}.json" for split in ("train", "validation", "test")]
FINISHED = re.compile(r"Finished jobid: \d+ \(Rule: (\w+)\)")
PARTS = "results/corpus/parts"
#: What took documents of train, in their order.
TAKEN = ("duplicate", "decontamination", "near_duplicate", "near_leaked")


def jobs_of(parts: int) -> dict[str, int]:
    """The rules that read and write a corpus in parts, in their order, with their jobs."""
    return {"corpus_read": parts, "corpus": 1}


#: Validation and test are carved from train.
FILES = {
    "source": "files",
    "files": {"train": ["data/*.txt"]},
    "count": 2,
    "filters": {"near_duplicates": True, "decontamination": {"also": ["test"]}},
}


def write_project(place: Path, parts: int) -> None:
    """Seven files, whose beginnings are the ends of those before."""
    lines = [line for text in speeches(60) for line in text.split(". ") if line.strip()]
    # Alike but for the last word, some of them in another split.
    lines += [f"{line} indeed" for line in lines if line.count(" ") > 30][::2]
    size = len(lines) // 7 + 1
    (place / "data").mkdir(parents=True, exist_ok=True)
    for number, name in enumerate("abcdefg"):
        some = lines[max(0, number * size - 100) : (number + 1) * size]
        (place / "data" / f"{name}.txt").write_text("\n".join(some) + "\n", encoding="utf-8")
    Project(place).write_config(TINY | {"corpus": FILES | {"parts": parts}})


def started(place: Path, *more: str, cores: int = 2) -> Run:
    """Snakemake on the corpus below `place`."""
    command = ("-s", str(ROOT / "Snakefile"), "--quiet=host", f"--cores={cores}", *TARGETS)
    return start(Project(place), *command, *more)


def said(place: Path, *more: str, cores: int = 2) -> str:
    """What Snakemake says as it ends well."""
    return started(place, *more, cores=cores).finished()


def planned(place: Path) -> dict[str, int]:
    rows = re.findall(r"^(\w+) +(\d+)$", said(place, "--dry-run"), re.M)
    return {rule: int(count) for rule, count in rows if rule not in ("total", "all")}


def killed(place: Path, rule: str, cores: int) -> list[str]:
    """The jobs that ended before a SIGKILL of Snakemake and all its jobs, while `rule` ran."""
    run = started(place, cores=cores)
    # The first that a job does is to open its log.
    run.wait_for(lambda: any((place / "logs" / rule).glob("*.log")))
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    return FINISHED.findall(run.output())


def digests(place: Path) -> dict[str, str]:
    return {f.name: file_sha256(f) for f in (place / "results/corpus").iterdir() if f.is_file()}


def test_a_kill_in_each_stage_costs_that_job_and_changes_no_byte(tmp_path):
    one = tmp_path / "one"
    write_project(one, parts=1)
    assert planned(one) == {"corpus": 1}
    said(one, cores=1)
    train, validation, _ = (CorpusSplit.read(one / target) for target in TARGETS)
    assert all(train.filters[name] for name in TAKEN)
    assert validation.source.carved_from == "train"

    write_project(tmp_path, parts=4)
    jobs = jobs_of(4)
    ended: Counter[str] = Counter()
    for number, rule in enumerate(jobs):
        before = killed(tmp_path, rule, cores=1 + number % 2)
        ended.update(before)
        # It was in the middle of this stage, and of what is there none is taken for the result.
        assert ended[rule] < jobs[rule]
        assert rule == "corpus" or not digests(tmp_path)
    ended.update(FINISHED.findall(said(tmp_path)))
    assert digests(tmp_path) == digests(one)
    # What was there stayed: no job was done twice.
    assert ended.keys() == jobs.keys() and all(ended[rule] <= jobs[rule] for rule in jobs)
    assert not (tmp_path / PARTS).exists()
    assert planned(tmp_path) == {}


def test_an_edit_reads_again_the_parts_that_it_is_in(tmp_path):
    write_project(tmp_path, parts=4)
    # As after a kill just before the end: what the parts left is still there.
    said(tmp_path, "--notemp")
    (tmp_path / "results/corpus/train.json").unlink()
    assert planned(tmp_path) == {"corpus": 1}
    file = tmp_path / "data" / "b.txt"
    text = file.read_bytes()
    file.write_bytes(b"Another text, as long." + text[22:])
    assert planned(tmp_path) == {"corpus_read": 1, "corpus": 1}
