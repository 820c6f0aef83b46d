"""FLOPs of a step in JAX, by the count of its products."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh, PartitionSpec
from small_run import small_run, write_inputs

from mlm.config.accelerator import Accelerator
from mlm.model.masked_loss import strata
from mlm.preflight.steps_and_flops import AXIS, described_train_step, product_flops, traced_step
from mlm.samples.masking import MaskingPlan


def test_a_loop_counts_as_often_as_it_runs_and_a_choice_for_its_dearer_side():
    def step(x, y):
        x = jax.lax.scan(lambda sum, _: (sum + x @ y, None), x @ y, None, length=6)[0]
        return jax.lax.cond(x[0, 0] > 0, lambda x: (x @ y) @ y, lambda x: x @ y, x)

    square = jnp.ones((8, 8))
    assert product_flops(jax.make_jaxpr(step)(square, square)) == (1 + 6 + 2) * 2 * 8**3
    # Inside of a shard_map are the shapes of one device.
    mesh, whole = AbstractMesh((3,), ("data",)), PartitionSpec()
    shared = jax.shard_map(jnp.matmul, mesh=mesh, in_specs=(whole, whole), out_specs=whole)
    assert product_flops(jax.make_jaxpr(shared)(square, square)) == 3 * 2 * 8**3
    batched = jax.make_jaxpr(lambda x, y: jnp.einsum("bij,kj->bik", x, y))
    assert product_flops(batched(jnp.ones((3, 5, 7)), jnp.ones((11, 7)))) == 2 * 3 * 5 * 7 * 11


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    write_inputs(root := tmp_path_factory.mktemp("run"))
    run, _ = small_run(root, {"pretraining": {"optimizer": {"name": "muon"}}})
    step = described_train_step(run, Accelerator(), "v5e:2x2")
    step["config"]["attention_probs_dropout_prob"] = 0.0
    return step


def counted(description, **changes):
    mesh = Mesh(np.array(jax.devices()[:1]), (AXIS,))
    return product_flops(traced_step(mesh, description | changes).jaxpr)


def test_of_a_train_step_the_count_is_the_one_by_hand(described):
    # One layer, and so many samples that the head's logits are made in several blocks.
    samples, plan, config = 1000, MaskingPlan(**described["plan"]), described["config"]
    tokens, asked = samples * plan.sequence_length, samples * plan.slots
    width, inner = config["hidden_size"], config["intermediate_size"]
    assert config["num_hidden_layers"] == 1
    forward = 2 * tokens * 2 * width**2  # keys and values
    # At the positions asked for alone: queries, output, feed-forward, scores and weighted sums.
    forward += 2 * asked * (2 * width**2 + 2 * width * inner + 2 * width * plan.sequence_length)
    classes = len(strata(plan.vocabulary_size, described["recipe"]["softmax_classes"])[0])
    assert classes < plan.vocabulary_size
    forward += 2 * asked * (width**2 + width * classes)  # the head
    more = counted(described, samples=2 * samples) - counted(described, samples=samples)
    # The gradients of biases are products, too.
    assert more == pytest.approx(3 * forward, rel=0.03)
