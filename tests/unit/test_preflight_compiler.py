"""The compilers' environment, and a compiler that dies."""

import subprocess
import sys

import pytest
from tests.conftest import refusal

from mlm.preflight import compiler
from mlm.preflight.compiler import COMPILED, HOST_MEMORY, REFUSED, compile_for, require_compilers


def test_without_the_compiler_of_gpus_a_message_names_the_packages_and_the_lock():
    assert "requirements-preflight-gpu.txt" in refusal(require_compilers, ["v5e:2x2", "rtx4090"])


@pytest.mark.parametrize(
    ("death", "outcome"),
    [("import os; os.kill(os.getpid(), 9)", HOST_MEMORY), ("raise KeyError('a name')", REFUSED)],
)
def test_a_compiler_that_dies_is_an_answer_to_every_step_that_is_left(monkeypatch, death, outcome):
    real = subprocess.run
    answered = f'print(\'{compiler._ANSWER}{{"outcome": "{COMPILED}"}}\', flush=True)'

    def dying(command, **options):
        return real([sys.executable, "-c", f"{answered}; {death}"], **options)

    monkeypatch.setattr(compiler.subprocess, "run", dying)
    first, *left = compile_for("v5e:2x2", {}, {}, {})
    assert first.outcome == COMPILED
    assert [answer.outcome for answer in left] == [outcome] * 2
    assert left[0].message
