"""The step in JAX as a GPU's compiler gets it, which needs no GPU."""

import re

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from tiny_encoder import LENGTH, VOCABULARY, tiny_config

from mlm.config.optimizers import Optimizer
from mlm.model.architecture import Architecture
from mlm.model.weights import initial_parameters
from mlm.samples.masking import MaskingPlan
from mlm.training.in_jax.devices import AXIS
from mlm.training.in_jax.optimizers import first_moments, hidden_parts
from mlm.training.in_jax.train_step import Computation, on_mesh, train_step
from mlm.training.learning_rate import with_lengths

SHARDING = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_the_train_step_lowers_for_a_gpu_with_no_part_of_a_cpus(family):
    architecture = Architecture.of(tiny_config(family))
    plan = MaskingPlan(0.3, 0.8, 0.1, 4, (0, 1, 2, 3, 4), VOCABULARY, LENGTH)
    settings = with_lengths(Optimizer(name="muon"), 100)
    computation = Computation(architecture, "document", True, "bfloat16", 0)
    mesh = Mesh(np.array(jax.devices("cpu")[:1]), (AXIS,))

    def state():
        weights = initial_parameters(architecture, jax.random.key(0))
        moments = first_moments(weights, settings, hidden_parts(architecture))
        return {"parameters": weights, "moments": moments, "step": np.int32(0)}

    sizes = {"tokens": ((4, LENGTH), np.uint16), "index": ((4,), np.uint32)}
    sizes["epoch"] = sizes["index"]
    batch = {name: jax.ShapeDtypeStruct(*size) for name, size in sizes.items()}
    step = jax.jit(on_mesh(train_step(computation, plan, settings, 0), mesh))
    traced = step.trace(jax.eval_shape(state), batch)
    program = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "bf16" in program
    assert set(re.findall(r"custom_call @(\w+)", program)) <= SHARDING
