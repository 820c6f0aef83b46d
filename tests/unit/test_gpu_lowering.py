"""The step in JAX as a GPU's compiler gets it, which needs no GPU."""

import re

import jax
import numpy as np
from jax.sharding import Mesh
from small_pretraining import small_pretraining

from mlm.config.accelerator import Accelerator
from mlm.preflight.described_steps import AXIS, described_train_step, traced_step

SHARDING = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}


def test_the_train_step_lowers_for_a_gpu_with_no_part_of_a_cpus(tmp_path):
    how = {"rematerialise": True, "attend": "document", "engine": "jax"}
    run = small_pretraining(tmp_path, model={"family": "modernbert"}, **how)
    step = described_train_step(run, Accelerator(precision="bfloat16"), "h100")
    traced = traced_step(Mesh(np.array(jax.devices("cpu")[:1]), (AXIS,)), step)
    program = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "bf16" in program
    assert set(re.findall(r"custom_call @(\w+)", program)) <= SHARDING
