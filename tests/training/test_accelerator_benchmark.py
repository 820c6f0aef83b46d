"""The benchmark that waits for an accelerator runs on a CPU, without what it does not need."""

import json
import os
import sys
from pathlib import Path

import pytest
from tests.conftest import ended

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "accelerator.py"
#: What the machine with the accelerator may be without.
ABSENT = ("tensorflow", "transformers", "tokenizers", "snakemake", "flax", "optax", "datasets")


@pytest.mark.slow
def test_a_case_has_its_figures(tmp_path):
    for name in ABSENT:
        absent = f"raise ImportError('{name} is not installed')\n"
        (tmp_path / f"{name}.py").write_text(absent)
    quick = ["--quick", "--kind", "cpu", "--threads", "1", "--turns", "2", "--steps", "1"]
    command = (sys.executable, BENCHMARK, *quick, "--with", "jax", "--cases", "modernbert-base-512")
    ran = ended(*command, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    (row,) = map(json.loads, ran.stdout.splitlines())
    assert row["same_bits_again"] and row["same_bits_resumed"]
    assert (row["platform"], row["devices"], row["peak_memory_gib"]) == ("cpu", 1, None)
    assert row["date"] and row["device"] and row["tokens_per_second_per_device"] > 0
    assert row["step_ms_quartiles"][0] <= row["step_ms"] <= row["step_ms_quartiles"][1]
    assert 0 < row["share_of_product"] < 2
