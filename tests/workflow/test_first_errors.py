"""Mistakes of a first hour, made as a newcomer makes them: each is answered with what to do."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import ended, users_environment

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
#: A process that root starts and that may not write where root may not, like other users' ones.
AS_A_USER = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
SNAKEMAKE = ("-m", "snakemake", "--cores", "1", "-s", str(ROOT / "Snakefile"))
OWN = "corpus: {source: files, files: {train: [a.txt]}}"


def said(directory: Path, *command: str, prefix=(), left=False, **environment: str) -> str:
    """What a command says in `directory`, where it fails and leaves no result, or those `left`."""
    how = {"cwd": directory, "env": users_environment() | environment}
    ran = ended(*prefix, sys.executable, *command, status=1, **how)
    shown = ran.stdout + ran.stderr
    assert "Traceback (most recent" not in shown, shown
    assert left or not [file for file in directory.glob("results/**/*") if file.is_file()]
    return shown


def snakemake(directory: Path, *words: str, config="", before="", prefix=(), left=False) -> str:
    """What Snakemake says; each of its Pythons runs the statements `before` first."""
    environment = {}
    if before:
        place = directory.with_name(f"{directory.name}-before")
        place.mkdir()
        (place / "sitecustomize.py").write_text(before)
        environment["PYTHONPATH"] = str(place)
    if config:
        (directory / "own.yaml").write_text(config)
        words += ("--configfile", "own.yaml")
    return said(directory, *SNAKEMAKE, *words, prefix=prefix, left=left, **environment)


@pytest.mark.parametrize("place", ["a.txt", "results/corpus/train.json", "results/corpus"])
def test_a_file_or_a_result_that_may_not_be_read(tmp_path, place):
    (tmp_path / "a.txt").write_text("A text.\n")
    (tmp_path / "results/corpus").mkdir(parents=True)
    (tmp_path / "results/corpus/train.json").touch()
    (tmp_path / place).chmod(0)
    try:
        answer = snakemake(tmp_path, config=OWN, prefix=AS_A_USER, left=True)
    finally:
        (tmp_path / place).chmod(0o755)
    if place == "a.txt":
        assert re.search(r"\n.*a\.txt may not be read by .*chmod u\+r a\.txt\n$", answer), answer
    else:
        assert answer.endswith(
            f"\n{place}: Permission denied. Give this user access to it (its owner can: chmod -R "
            f"u+rwX {place}), or run in another directory (snakemake --directory).\n"
        )
    assert "  File " not in answer


def test_a_preflight_without_its_packages(tmp_path):
    hidden = "import importlib.metadata as m; v = m.version; m.version = lambda n: v(n.strip('ul'))"
    answer = snakemake(tmp_path, "preflight", before=hidden)
    assert "The preflight for TPUs needs libtpu, missing in " in answer
    assert "-m pip install --no-deps --no-compile --require-hashes -r " in answer
    assert f"{ROOT}/envs/requirements-tpu.txt" in answer
