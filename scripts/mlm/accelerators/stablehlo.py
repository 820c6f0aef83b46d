"""Compile a module that TensorFlow lowered: the only place that touches private JAX.

JAX's public interface compiles functions traced by JAX alone. The private parts used here are
pinned with jax and libtpu in envs/requirements-preflight.txt.
"""

from pathlib import Path


def compile_stablehlo(devices, program: str | Path, quick: bool):
    """XLA's executable of the file `program` for one replica on each device.

    All-reduces, whatever group they were written for, go over every replica.
    """
    import numpy as np
    from jax._src.interpreters import mlir
    from jaxlib import xla_client
    from jaxlib.mlir import ir

    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = len(devices), 1
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.array([[d.id] for d in devices], np.int32)
    )
    if quick:
        options.executable_build_options.exec_time_optimization_effort = -1.0
    with mlir.make_ir_context():
        module = ir.Module.parse(Path(program).read_bytes())
        groups = ir.DenseElementsAttr.get(np.arange(len(devices), dtype=np.int64)[np.newaxis, :])
        _adapt(module.operation, groups)
        return devices[0].client.compile(
            module,
            executable_devices=xla_client.DeviceList(tuple(devices)),
            compile_options=options,
        )


def _adapt(operation, groups) -> None:
    """Make of a CPU's lowering what a TPU's would be, with all-reduces over `groups`.

    The CPU's lowering has copies, which libtpu refuses, and draws random bits with Philox where
    the program leaves the generator to the device (`tf.random.Algorithm.AUTO_SELECT`, which all
    dropouts of Keras do). A TPU's has XLA's default there, the hardware's own generator.
    """
    for region in operation.regions:
        for block in region:
            for inner in list(block):
                inner = inner.operation
                _adapt(inner, groups)
                if inner.name == "mhlo.copy":
                    inner.results[0].replace_all_uses_with(inner.operands[0])
                    inner.erase()
                elif inner.name == "stablehlo.all_reduce":
                    inner.attributes["replica_groups"] = groups
                elif inner.name == "stablehlo.rng_bit_generator":
                    _draw_as_the_device_does(inner)


def _draw_as_the_device_does(philox) -> None:
    """Replace a Philox generator by XLA's default one, with the state that TensorFlow gives it.

    Philox' state is u64[3], the key and a counter of two; the default's is the key and the
    counter's first (`GetCounterSize` in tensorflow/compiler/xla/client/lib/prng.cc).
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    state, bits = philox.results
    if "PHILOX" not in str(philox.attributes["rng_algorithm"]) or state.type.shape != [3]:
        return
    with ir.InsertionPoint(philox), philox.location:
        pair = ir.RankedTensorType.get([2], state.type.element_type)
        first = stablehlo.slice(philox.operands[0], [0], [2], [1])
        last = stablehlo.slice(philox.operands[0], [2], [3], [1])
        drawn = stablehlo.RngBitGeneratorOp(
            pair, bits.type, stablehlo.RngAlgorithmAttr.get("DEFAULT"), first
        )
        after = stablehlo.concatenate([drawn.output_state, last], 0)
    state.replace_all_uses_with(after)
    bits.replace_all_uses_with(drawn.output)
    philox.erase()
