"""JAX as the whole project uses it: import it from here, after `prepare` where a CPU computes.

transformers is told to leave TensorFlow and PyTorch alone, which takes seconds off a start.
"""

import os
import sys

os.environ.setdefault("USE_TF", "0")
os.environ.setdefault("USE_TORCH", "0")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def prepare(cpu_threads: int, virtual_devices: int | None) -> None:
    """Fix what XLA reads once, when JAX is first asked for its devices.

    XLA sizes its pool of threads by NPROC: the number shapes how sums are divided, so it comes
    from the configuration and never from the machine. Virtual devices wait for each other and
    need a thread each.
    """
    devices = virtual_devices or 1
    os.environ["NPROC"] = str(max(cpu_threads, devices))
    flags = [f for f in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in f]
    if virtual_devices:
        flags.append(f"--xla_force_host_platform_device_count={devices}")
    os.environ["XLA_FLAGS"] = " ".join(flags)
    if "jax" in sys.modules:
        import jax

        jax.clear_caches()


def data_mesh(kind: str, virtual_devices: int | None):
    """A one-dimensional mesh named "data" over all devices of `kind`.

    `kind` is section `accelerator`'s: auto takes the best that JAX finds. Raises MlmError where
    there is no such device.
    """
    import jax
    import numpy as np
    from jax.sharding import Mesh

    from mlm.errors import MlmError

    platform = "cpu" if virtual_devices else {"auto": None}.get(kind, kind)
    try:
        devices = jax.devices(platform)
    except RuntimeError as error:
        raise MlmError(
            f"accelerator.kind: {kind}, but JAX finds no such device "
            f"({str(error).splitlines()[0]}). Set it to auto or cpu, or install JAX for {kind}"
        ) from None
    if virtual_devices:
        devices = devices[:virtual_devices]
    return Mesh(np.array(devices), ("data",))
