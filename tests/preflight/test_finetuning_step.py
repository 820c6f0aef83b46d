"""The fine-tuning step through the real TPU compiler."""

import pytest

from mlm.accelerators.compiler import COMPILED, NO_MEMORY, REFUSED, compile_for
from mlm.accelerators.described_steps import FINETUNING
from mlm.config.resolution import resolve

pytestmark = pytest.mark.slow

CONFIG = {
    "model_type": "roberta-prelayernorm",
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 66,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
SECTION = {
    "dropout": 0.1,
    "epochs": 2,
    "learning_rate": 1e-4,
    "max_length": 64,
    "per_device_batch_size": 8,
    "warmup_ratio": 0.1,
    "optimizer": resolve({})["finetune"]["optimizer"],
}


def compile_step(**config):
    step = {"step": FINETUNING, "config": CONFIG | config, "section": SECTION, "outputs": 1}
    return compile_for("v5e:2x2", step | {"precision": "bfloat16"})[0]


def test_the_step_of_a_small_model_is_compiled_with_its_all_reduce():
    found = compile_step()
    assert found.outcome == COMPILED, found.message
    assert (found.replicas, found.chips) == (4, 4)
    assert sum(c.bytes for c in found.collectives if c.kind == "all-reduce") > 4 * 1000 * 64
    # Weights and both moments, and they are updated in place.
    assert found.arguments > 3 * 4 * 1000 * 64
    assert found.aliased >= 0.9 * found.outputs


def test_a_model_beyond_the_memory_is_told_from_a_refused_one():
    large = compile_step(vocab_size=40_000_000)
    assert large.outcome == NO_MEMORY
    refused = compile_step(model_type="gpt2")
    assert refused.outcome == REFUSED
    assert "gpt2" in refused.message
