"""TensorFlow and its devices: a distribution strategy over CPUs or TPUs."""

from mlm.config.accelerator import Accelerator
from mlm.foundations.errors import MlmError, first_line
from mlm.foundations.tensorflow_setup import tf
from mlm.foundations.terminal import show
from mlm.training.devices import (
    Devices,
    cpu_multiplies_bfloat16,
    keep_freed_memory,
    local_gpu,
    local_tpu,
)

_GPU_ADVICE = (
    "Train with pretraining.engine: jax and the packages of envs/requirements-gpu.txt, or set "
    "accelerator.kind: cpu"
)


def open_strategy(settings: Accelerator, batch: int = 1) -> Devices:
    """Open the devices of `settings`, before anything else uses TensorFlow; `batch` is the samples
    in one gradient of a replica. Raises MlmError if there is no such device."""
    replicas, kind = settings.virtual_replicas, settings.kind
    if replicas or kind == "auto":
        kind = "tpu" if not replicas and local_tpu() else "cpu"
    if kind == "gpu":
        raise MlmError(f"accelerator.kind: gpu, where TensorFlow does not train. {_GPU_ADVICE}")
    if settings.kind == "auto" and kind == "cpu" and not replicas and (gpu := local_gpu()):
        show(f"Warning: this machine has an NVIDIA GPU ({gpu}): the CPU is used. {_GPU_ADVICE}")
    threads, lanes = settings.cpu_threads, settings.lanes(batch) if kind == "cpu" else 1
    # The order in which a CPU adds up depends on its number of threads: the number is set, is part
    # of a state's basis, and is not what the scheduler happens to grant.
    tf.config.experimental.enable_op_determinism()
    # Determinism requires a seed; no random number here depends on it.
    tf.random.set_seed(1)
    tf.config.threading.set_intra_op_parallelism_threads(threads // lanes)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    if kind == "cpu":
        keep_freed_memory()
    strategy = _tpus(settings) if kind == "tpu" else _cpus(replicas)
    precision = settings.precision_on(kind, cpu_multiplies_bfloat16())
    arithmetic = {
        "intra_op_threads": threads // lanes,
        "inter_op_threads": threads,
        # Parts of a batch that a CPU computes at the same time.
        "lanes": lanes,
    }
    count = strategy.num_replicas_in_sync
    return Devices("tensorflow", strategy, kind, precision, count, arithmetic)


def _cpus(virtual_replicas: int | None) -> tf.distribute.Strategy:
    tf.config.set_visible_devices([], "GPU")
    if not virtual_replicas:
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(virtual_replicas)]
    tf.config.set_logical_device_configuration(cpu, logical)
    return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(virtual_replicas)])


def _tpus(settings: Accelerator) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # every layer below raises a type of its own
        reason = f"this machine's: {local_tpu()}" if settings.kind == "auto" else "kind: tpu"
        raise MlmError(
            f"No TPU can be used ({reason}). TensorFlow {tf.__version__} says: "
            f"{first_line(error)}. Rehearse here with accelerator.virtual_replicas: 8, set "
            "accelerator.kind: cpu, or run on a TPU VM with the packages of "
            "envs/requirements-tpu-tensorflow.txt (docs/tpu.md)."
        ) from error
    return tf.distribute.TPUStrategy(resolver)
