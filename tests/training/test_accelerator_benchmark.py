"""What stands ready for an accelerator runs on a CPU, without what it says it does not need."""

import json
import os
import sys
from pathlib import Path

import pytest
import small_run
from tests.conftest import ended

ROOT = Path(__file__).parents[2]
BENCHMARK = ROOT / "benchmarks" / "accelerator.py"
#: What the machine with the accelerator may be without.
ABSENT = ("tensorflow", "transformers", "tokenizers", "snakemake", "flax", "optax", "datasets")


@pytest.mark.slow
def test_a_case_has_its_figures_and_the_engine_trains_on_shards(tmp_path):
    (tmp_path / "absent").mkdir()
    for name in ABSENT:
        absent = f"raise ImportError('{name} is not installed')\n"
        (tmp_path / "absent" / f"{name}.py").write_text(absent)
    small_run.write_inputs(tmp_path)
    (tmp_path / "manifests").mkdir()
    for split in ("train", "validation"):
        (tmp_path / f"{split}.json").rename(tmp_path / "manifests" / f"{split}.json")
    quick = ["--quick", "--kind", "cpu", "--threads", "1", "--turns", "2", "--steps", "1"]
    asked = ["--cases", "modernbert-base-512", "--shards", str(tmp_path / "manifests")]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "absent")}
    command = (sys.executable, BENCHMARK, *quick, "--with", "jax", "--json", *asked)
    ran = ended(*command, env=environment)
    row, losses, trained = map(json.loads, ran.stdout.splitlines())
    assert row["same_bits_again"] and row["same_bits_resumed"]
    assert (row["platform"], row["devices"], row["peak_memory_gib"]) == ("cpu", 1, None)
    assert row["date"] and row["device"] and row["product_tflops"] > 0
    assert row["step_ms_quartiles"][0] <= row["step_ms"] <= row["step_ms_quartiles"][1]
    assert row["share_of_product"] > 0
    # Both trainings of it are in float32 on this CPU.
    assert losses["loss"] == losses["loss_in_float32"] and losses["largest_difference"] == 0
    assert trained["steps"] == 20
    # Below chance of 500 words, which the weights begin with.
    assert 0 < trained["validation_loss"] < 6.2 and 0 < trained["loss"] < 6.2


def test_the_default_of_the_benchmark_is_that_of_the_configuration(monkeypatch):
    from mlm.config.resolution import model_of_run, resolve
    from mlm.config.tokenizer import expected_vocabulary

    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    from accelerator import _DEFAULT, CASES

    config = resolve({})
    model, pretraining = model_of_run(config, "base"), config["pretraining"]
    assert _DEFAULT["model_type"] == model["family"]
    assert _DEFAULT["vocab_size"] == expected_vocabulary(config)
    assert model["config"].items() <= _DEFAULT.items()
    case = CASES["default"]
    assert case.batch == pretraining["per_replica_batch_size"]
    assert case.sequence == config["shards"]["sequence_length"]
    assert case.masked == pretraining["masking"]["mlm_probability"]
