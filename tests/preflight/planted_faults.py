"""Steps with a planted fault, compiled in a process that has the compiler.

python planted_faults.py TARGET FAULT: prints outcome and message as JSON.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

#: By the name of the function below: how its compilation ends, and words that say why.
FAULTS = {
    "clean": ("compiled", ""),
    "shape_by_data": ("refused", "must be statically specified"),
    "host_callback": ("refused", "calls Python on the host"),
    "float64": ("refused", "computes in float64"),
}


def outcome_with(target: str, fault: str, python: str | Path = sys.executable) -> tuple[str, str]:
    """How compiling `fault` for `target` ends, and why."""
    from mlm.accelerators.compiler import ENVIRONMENT

    command, environment = [python, __file__, target, fault], os.environ | ENVIRONMENT
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    outcome, message = json.loads(ran.stdout.splitlines()[-1])
    return outcome, message


def main(target: str, fault: str) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
    from mlm.training.in_jax.devices import prepare_jax

    prepare_jax("cpu", 1, None)

    import jax
    import jax.numpy as jnp
    import numpy as np

    from mlm.accelerators import compiler, described_steps

    def float64(x):
        with jax.enable_x64(True):
            return x.astype(jnp.float64).sum()

    step = {
        "clean": jnp.sum,
        "shape_by_data": lambda x: jnp.nonzero(x)[0].sum(),
        "host_callback": lambda x: jax.pure_callback(
            np.sum, jax.ShapeDtypeStruct((), np.float32), x
        ),
        "float64": float64,
    }[fault]

    def traced(mesh, description):
        whole = described_steps.shardings(mesh)[0]
        return jax.jit(step).trace(jax.ShapeDtypeStruct((1024,), np.float32, sharding=whole))

    with mock.patch.object(described_steps, "traced_step", traced):
        found = compiler.compile_here(target, {"attention": "xla"}, quick=True)
    print(json.dumps([found.outcome, found.message]))


if __name__ == "__main__":
    main(*sys.argv[1:])
