"""Whoever must account for a model: exports of the results, and how one of them came about."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.workflow

RESULT = "results/runs/base/evaluation.json"


def test_results_are_exported_and_accounted_for(copied):
    def account() -> subprocess.CompletedProcess:
        command = [sys.executable, "scripts/reproduce.py", RESULT]
        return subprocess.run(command, cwd=copied.path, capture_output=True, text=True)

    copied.snakemake("export")
    sums = ["sha256sum", "--check", "--quiet", "results/exports/SHA256SUMS"]
    assert subprocess.run(sums, cwd=copied.path).returncode == 0
    found = account()
    assert found.returncode == 0, found.stdout + found.stderr
    assert "code     this clone computes the same" in found.stdout
    assert "vocabulary_size: 600" in found.stdout
    metrics = copied.path / "scripts" / "mlm" / "evaluation" / "metrics.py"
    metrics.write_text(metrics.read_text() + "\nADDED = 1\n")
    found = account()
    assert found.returncode == 1
    assert "code     not as recorded: evaluate" in found.stdout
    assert "result   not as recorded: evaluate" in found.stdout
