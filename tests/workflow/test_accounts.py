"""Whoever must account for a model: exports of the results, and how one of them came about."""

import sys

import pytest

from tests.conftest import ended

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

RESULT = "results/runs/base/evaluation.json"


def test_results_are_exported_and_accounted_for(copied):
    command = (sys.executable, "scripts/reproduce.py", RESULT)
    copied.snakemake("export")
    ended("sha256sum", "--check", "--quiet", "results/exports/SHA256SUMS", cwd=copied.path)
    found = ended(*command, cwd=copied.path)
    assert "result   what this clone" in found.stdout
    assert "vocabulary_size: 600" in found.stdout
    metrics = copied.path / "scripts" / "mlm" / "evaluation" / "metrics.py"
    metrics.write_text(metrics.read_text() + "\nADDED = 1\n")
    found = ended(*command, status=1, cwd=copied.path)
    assert "result   not as recorded: evaluate" in found.stdout
