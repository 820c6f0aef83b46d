"""Whoever must account for a model: how a result came about."""

import sys

import pytest

from tests.conftest import ended

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

RESULT = "results/runs/base/evaluation.json"


def test_a_result_is_accounted_for(copied):
    command = (sys.executable, "scripts/reproduce.py", RESULT)
    found = ended(*command, cwd=copied.path)
    assert "result   what this clone" in found.stdout
    assert "vocabulary_size: 600" in found.stdout
    metrics = copied.path / "scripts" / "mlm" / "evaluation" / "metrics.py"
    metrics.write_text(metrics.read_text() + "\nADDED = 1\n")
    found = ended(*command, status=1, cwd=copied.path)
    assert "result   not as recorded: evaluate" in found.stdout
