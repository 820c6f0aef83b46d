import pytest
import small_run

from mlm.accelerators.artefacts import FINETUNING
from mlm.accelerators.compiler import COMPILED, NO_MEMORY, REFUSED, compile_for
from mlm.accelerators.lowering import lower_run
from mlm.config.evaluation import Evaluation
from mlm.config.resolution import resolve
from mlm.config.targets import replicas_of
from tests.preflight.test_lowering_job import lower_in_a_process

pytestmark = pytest.mark.slow


def test_the_steps_of_the_engine_in_jax_compile_for_a_tpu(tmp_path):
    """The very functions that train, validate and evaluate, over a mesh of four devices."""
    small_run.write_inputs(tmp_path)
    changes = {
        "model": {"family": "modernbert", "config": {"global_rope_theta": 100.0}},
        "pretraining": {"attend": "document", "rematerialise": True, "optimizer": {"name": "muon"}},
    }
    settings, files = small_run.small_job(tmp_path, overrides=changes)
    section = {"batch_size": 16, "mlm_probability": 0.15, "mask_token": 1.0, "random_token": 0.0}
    programs = [str(tmp_path / name) for name in ("t", "v", "e")]
    program, validation, evaluation = programs
    section = Evaluation.of_param(section)
    lowering = lower_run(settings, files, program, section, validation, {4: evaluation}).step
    assert (lowering.engine, lowering.lowered) == ("jax", True)
    assert lowering.forward_rows.evaluation == {4: 4}
    found, *others = compile_for("v5e:2x2", *programs, quick=True)
    assert [f.outcome for f in (found, *others)] == [COMPILED] * 3
    # The gradients, in float32.
    (summed,) = found.collectives
    assert (found.replicas, summed.kind, summed.replicas) == (4, "all-reduce", 4)
    assert summed.bytes == pytest.approx(4 * lowering.parameters, rel=0.01)
    # Weights and two moments of AdamW, one of Muon, in float32, and they are updated in place.
    assert found.memory.aliased > 0.95 * found.memory.outputs
    assert found.memory.arguments > 8 * lowering.parameters


#: Targets, and the machines that the compiler describes: one for four chips.
SLICES = {"v5e:16x16": 64, "v6e:8x8": 16, "v4:4x4x4": 16}


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_a_whole_slice_compiles_and_sums_the_gradients_over_all_of_it(tmp_path, engine):
    small_run.write_inputs(tmp_path)
    step = lower_in_a_process(tmp_path, {"pretraining": {"engine": engine}}).step
    assert (step.engine, step.lowered) == (engine, True)
    gradients = 4 * step.parameters
    for target, hosts in SLICES.items():
        (found,) = compile_for(target, tmp_path / "train_step.stablehlo", quick=True)
        assert found.outcome == COMPILED, found.message
        assert (found.replicas, found.hosts) == (replicas_of(target), hosts)
        kinds = {(c.kind, c.replicas) for c in found.collectives}
        assert kinds == {("all-reduce", replicas_of(target))}
        summed = sum(c.bytes for c in found.collectives)
        assert summed == pytest.approx(gradients, rel=0.02)


#: Of a model that is fine-tuned.
CONFIG = {"model_type": "roberta-prelayernorm", "vocab_size": 1000, "hidden_size": 64}
CONFIG |= {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 128}
CONFIG |= {"max_position_embeddings": 66, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
SECTION = resolve({"finetune": {"max_length": 64, "per_device_batch_size": 8}})["finetune"]


def compile_step(**config):
    step = {"step": FINETUNING, "config": CONFIG | config, "section": SECTION, "outputs": 1}
    return compile_for("v5e:2x2", step | {"precision": "bfloat16"})[0]


def test_the_step_of_a_small_model_is_compiled_with_its_all_reduce():
    found = compile_step()
    assert found.outcome == COMPILED, found.message
    assert (found.replicas, found.chips) == (4, 4)
    assert sum(c.bytes for c in found.collectives if c.kind == "all-reduce") > 4 * 1000 * 64
    # Weights and both moments, and they are updated in place.
    assert found.memory.arguments > 3 * 4 * 1000 * 64
    assert found.memory.aliased >= 0.9 * found.memory.outputs


def test_a_model_beyond_the_memory_is_told_from_a_refused_one():
    large = compile_step(vocab_size=40_000_000)
    assert large.outcome == NO_MEMORY
    refused = compile_step(model_type="gpt2")
    assert refused.outcome == REFUSED
    assert "gpt2" in refused.message
