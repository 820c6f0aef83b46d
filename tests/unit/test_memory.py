import math
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from small_run import small_run, write_inputs

from mlm.config.accelerator import Accelerator
from mlm.config.configuration import trainings
from mlm.config.families import FAMILIES
from mlm.config.memory_of_jobs import memory_of_evaluation, memory_of_training, parameters
from mlm.config.model import Model
from mlm.config.overlays import resolve
from mlm.config.special_tokens import SpecialIds
from mlm.model.architecture import Architecture, model_configuration, parameter_shapes
from mlm.preflight.steps_and_flops import AXIS, described_train_step, traced_step
from mlm.samples.masking import MaskingPlan

NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
SIZES = dict(zip(NAMES, (128, 2, 4, 512), strict=True))
BASE = dict(zip(NAMES, (768, 12, 12, 3072), strict=True))
#: Tokens of the embedded corpus.
TOKENS = 2_300_000


def asked(given: dict, tokens: int | None = TOKENS, **accelerator) -> int:
    given = {"shards": {"sequence_length": 128}, "accelerator": accelerator} | given
    settings = resolve(given)
    vocabulary = settings.tokenizer.expected_size
    return memory_of_training(trainings(settings)["base"], vocabulary, tokens)


def evaluated(given: dict) -> int:
    settings = resolve(given)
    run, vocabulary = trainings(settings)["base"], settings.tokenizer.expected_size
    return memory_of_evaluation(run, settings.evaluation, vocabulary, TOKENS)


def model(given: dict) -> Model:
    return trainings(resolve({"model": given}))["base"].model


def test_memory_follows_from_the_model_the_batch_and_the_replicas():
    assert asked({}) == evaluated({}) == 4000
    large = {"model": {"config": BASE}}
    batch = large | {"pretraining": {"per_replica_batch_size": 128}}
    assert 4000 < asked(large, kind="tpu") < asked(large) < asked(batch)
    assert asked(large) < asked(large, cpu_threads=3)
    assert asked(large, kind="tpu", cpu_threads=3) == asked(large, kind="tpu")
    assert asked(batch, virtual_replicas=8) > 6 * asked(batch)
    assert evaluated({"model": {"config": BASE | {"hidden_size": 1536}}}) > 4000


def test_memory_is_that_of_the_largest_phase():
    def training(phases: list | None) -> dict:
        return {"model": {"config": BASE}, "pretraining": {"phases": phases}}

    short, long = {"share": 0.5}, {"share": 0.5, "sequence_length": 1024}
    larger = long | {"per_replica_batch_size": 64}
    assert asked(training(None)) < asked(training([short, long])) < asked(training([larger, short]))


def test_a_batch_is_divided_equally_among_threads_and_not_into_little():
    cases = [(64, 1, 1), (64, 3, 2), (64, 8, 4), (48, 8, 3), (50, 8, 2), (16, 2, 1), (1, 4, 1)]
    for batch, threads, lanes in cases:
        assert Accelerator(cpu_threads=threads).lanes(batch) == lanes
    assert Accelerator(virtual_replicas=2).lanes(64) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_has_more_parameters_than_are_taken(family):
    section = {"family": family, "initialisation": {"attention": "standard"}, "config": SIZES}
    fields = {"model_type": family, "vocab_size": 8000, "max_position_embeddings": 130} | SIZES
    shapes = parameter_shapes(Architecture.of(fields | FAMILIES[family].required)).values()
    built = sum(math.prod(shape) for shape in shapes)
    assert built <= parameters(model(section), 8000, 128) < 1.1 * built


@pytest.mark.slow
def test_in_jax_no_less_is_asked_for_than_xla_sets_aside(tmp_path):
    """For a batch that is compiled and never run: there is no more of the frameworks than asked."""
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    section = {"family": "modernbert", "config": SIZES | dropout}
    section["initialisation"] = {"attention": "standard", "embeddings": "random"}
    given = {"model": section, "pretraining": {"engine": "jax", "per_replica_batch_size": 1024}}
    ids = SpecialIds(cls=0, pad=1, sep=2, unk=3, mask=4)
    tokenizer = SimpleNamespace(vocabulary_size=8000, special_ids=ids)
    write_inputs(tmp_path)
    small, _ = small_run(tmp_path, {"pretraining": {"optimizer": {"name": "muon"}}})
    run = replace(
        small,
        model_config=model_configuration(model(section), tokenizer, 128),
        plan=MaskingPlan(0.3, 0.8, 0.1, 4, (0, 1, 2, 3, 4), 8000, 128),
        train=replace(small.train, sequence_length=128),
        pretraining=small.pretraining.model_copy(update={"per_replica_batch_size": 1024}),
    )
    step = described_train_step(run, Accelerator(precision="float32"), "v5e:2x2")
    traced = traced_step(Mesh(np.array(jax.devices()[:1]), (AXIS,)), step)
    found = traced.lower().compile().memory_analysis()
    taken = (found.temp_size_in_bytes + found.argument_size_in_bytes) / 1e6
    # The lower bound: a batch that fills memory. How much depends on the processor's vectors.
    assert 2000 < taken < asked(given) - 1500
