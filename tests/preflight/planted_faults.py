"""Compiles a step with a planted fault; run where a GPU's compiler is.

python planted_faults.py TARGET FAULT: prints outcome and message as JSON.
"""

import json
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from mlm.training.in_jax.devices import prepare_jax

prepare_jax("cpu", 1, None)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from mlm.accelerators import compiler, described_steps  # noqa: E402


def shape_by_data(x):
    return jnp.nonzero(x)[0].sum()


def host_callback(x):
    return jax.pure_callback(np.sum, jax.ShapeDtypeStruct((), np.float32), x)


def float64(x):
    with jax.enable_x64(True):
        return x.astype(jnp.float64).sum()


def too_large(x):
    # Of 2^37 numbers, which a product makes it keep.
    return (jnp.broadcast_to(x, (2**27, 1024)) * jnp.arange(2.0**27)[:, None]).sort(axis=0)[
        :: 2**20
    ]


def clean(x):
    return x.sum()


def main(target: str, fault: str) -> None:
    step = globals()[fault]

    def traced(mesh, description):
        return jax.jit(step).trace(
            jax.ShapeDtypeStruct((1024,), np.float32, sharding=described_steps.shardings(mesh)[0])
        )

    with mock.patch.object(described_steps, "traced_step", traced):
        found = compiler.compile_here(target, {}, quick=True)
    print(json.dumps([found.outcome, found.message]))


if __name__ == "__main__":
    main(*sys.argv[1:])
