"""What a step has beside its batch, and how its batch is divided."""

import jax
import numpy as np
from both_frameworks import alike, computed, held
from tiny_encoder import LENGTH, VOCABULARY, network_of, tiny_batch, tiny_encoder

from mlm.config.pretraining import Optimizer
from mlm.samples.masking import MaskingPlan, mask_batch
from mlm.training.in_tensorflow.engine import replica_train_step
from mlm.training.optimizers import first_moments, hidden_parts
from mlm.training.train_step import Computation, RandomInputs

SEED, STEP, SAMPLES = 5, 7, 4


def random_inputs(framework: str, parts: int = 1, replicas: int = 1) -> tuple[RandomInputs, dict]:
    """Of a step of one layer that drops and draws classes; and its weights."""
    dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.1)
    architecture, weights = tiny_encoder("roberta", num_hidden_layers=1, **dropout)
    computation = Computation(network_of(architecture, framework), "sample", 0, 40)
    return RandomInputs(computation, SEED, replicas, parts), weights


def test_the_keys_of_dropout_follow_from_seed_step_replica_part_and_layer_as_in_jax():
    arrays = random_inputs("jax", parts=2, replicas=3)[0].arrays(STEP)
    layers, embeddings = arrays["layer_keys"], arrays["embedding_keys"]
    assert layers.shape == (3, 2, 1, 4, 2) and embeddings.shape == (3, 2, 2)
    follow = jax.random.fold_in
    for replica in range(3):
        for part in range(2):
            key = follow(follow(follow(jax.random.key(SEED), STEP), replica), part)
            assert (jax.random.key_data(follow(key, 1)) == embeddings[replica, part]).all()
            for place in range(4):
                found = jax.random.key_data(follow(follow(key, 0), place))
                assert (found == layers[replica, part, 0, place]).all()
    # Of the same step all replicas draw the same classes.
    assert (arrays["classes"] == arrays["classes"][0]).all()


def test_lanes_make_the_update_of_the_whole_batch_with_the_same_dropped():
    random, weights = random_inputs("tensorflow")
    settings = Optimizer(name="adamw").scheduled(20)
    ids, mask = tiny_batch(SAMPLES)
    plan = MaskingPlan(0.3, 0.8, 0.1, 4, (0, 1, 2, 3, 4), VOCABULARY, LENGTH)
    batch = mask_batch(ids, mask, np.arange(SAMPLES), plan, SEED, 0) | random.arrays(STEP)
    batch["weights"] /= batch["weights"].sum()
    hidden = hidden_parts(random.computation.network.architecture)
    moments = first_moments(np.zeros_like, weights, settings, hidden)
    state = {"parameters": weights, "moments": moments, "step": np.int32(STEP)}

    def advanced(lanes: int):
        step = replica_train_step(random, settings, lanes)
        return computed(
            "tensorflow", lambda state, batch: step(held("tensorflow", state), batch), state, batch
        )

    whole, divided = advanced(1), advanced(4)
    alike(divided[1], whole[1], rtol=1e-5)
    alike(divided[0]["moments"], whole[0]["moments"], atol=1e-6, rtol=1e-4)
