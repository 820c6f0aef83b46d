"""What is wrong with a corpus stops the workflow: at its start, or with nothing left behind."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import users_environment

pytestmark = pytest.mark.workflow

ROOT = Path(__file__).parents[2]


def snakemake(directory: Path, corpus: dict) -> str:
    """What Snakemake says as it fails to make the corpus that `corpus` describes."""
    (directory / "own.yaml").write_text(yaml.safe_dump({"corpus": corpus}), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "-s", str(ROOT / "Snakefile")]
    command += ["results/corpus/train.parquet", "--configfile", "own.yaml"]
    ran = subprocess.run(
        command,
        cwd=directory,
        env=users_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode != 0, ran.stdout
    assert not [file for file in directory.glob("results/**/*") if file.is_file()]
    return ran.stdout


def test_bad_bytes_stop_the_job_with_their_place_and_leave_nothing(tmp_path):
    (tmp_path / "train.txt").write_bytes(b"good\n" * 1000 + b"bad \xff\n")
    said = snakemake(tmp_path, {"source": "files", "files": {"train": ["train.txt"]}})
    place = "train.txt, line 1001, byte offset 5004: byte 0xff is not UTF-8"
    assert f"Error in rule corpus: {place}" in said
    assert place in (tmp_path / "logs/corpus/corpus.log").read_text(encoding="utf-8")
