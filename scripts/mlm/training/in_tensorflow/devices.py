"""The device that trains, and the TensorFlow distribution strategy over it."""

from mlm.config.accelerator import Accelerator
from mlm.foundations.errors import MlmError, first_line
from mlm.foundations.tensorflow_setup import tf
from mlm.foundations.terminal import show
from mlm.training.devices import Devices
from mlm.training.local_devices import cpu_multiplies_bfloat16, local_gpu, local_tpu

_GPU_ADVICE = (
    "Train with pretraining.engine: jax and the packages of envs/requirements-gpu.txt, check the "
    "driver with nvidia-smi, or set accelerator.kind: cpu"
)


def open_strategy(settings: Accelerator, batch: int = 1) -> Devices:
    """The devices that `settings` ask for, before any other TensorFlow; `batch` is the samples in
    one gradient of a replica. MlmError if there is no such device."""
    kind = "cpu"
    if not settings.virtual_replicas:
        kind = _kind_of_this_machine() if settings.kind == "auto" else settings.kind
    threads, lanes = settings.cpu_threads, settings.lanes(batch) if kind == "cpu" else 1
    # The order in which a CPU adds up depends on its number of threads, so that this number
    # is part of the result and never what the scheduler happens to give.
    tf.config.experimental.enable_op_determinism()
    # TensorFlow asks for it then; nothing here is drawn by it.
    tf.random.set_seed(1)
    tf.config.threading.set_intra_op_parallelism_threads(threads // lanes)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    strategy = _strategy(kind, settings)
    precision = settings.precision_on(kind, cpu_multiplies_bfloat16())
    arithmetic = {
        "intra_op_threads": threads // lanes,
        "inter_op_threads": threads,
        # Parts of a batch that a CPU computes at the same time.
        "lanes": lanes,
    }
    replicas = strategy.num_replicas_in_sync
    return Devices("tensorflow", strategy, kind, precision, replicas, arithmetic)


def _kind_of_this_machine() -> str:
    """What `auto` comes to; warns of a GPU that TensorFlow cannot use."""
    if local_tpu():
        return "tpu"
    if tf.config.list_physical_devices("GPU"):
        return "gpu"
    if gpu := local_gpu():
        built = "with" if tf.test.is_built_with_cuda() else "without"
        show(
            f"Warning: this machine has an NVIDIA GPU ({gpu}), but TensorFlow {tf.__version__}, "
            f"built {built} CUDA, cannot use it: the CPU is used. {_GPU_ADVICE} if that is meant"
        )
    return "cpu"


def _strategy(kind: str, settings: Accelerator) -> tf.distribute.Strategy:
    if kind == "tpu":
        return _tpu(settings)
    if kind == "gpu":
        gpus = tf.config.list_physical_devices("GPU")
        if not gpus:
            raise MlmError(f"accelerator.kind: gpu, but TensorFlow sees no GPU. {_GPU_ADVICE}")
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        return tf.distribute.MirroredStrategy()
    tf.config.set_visible_devices([], "GPU")
    count = settings.virtual_replicas
    if not count:
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    tf.config.set_logical_device_configuration(cpu, logical)
    return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(count)])


def _tpu(settings: Accelerator) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # every layer below raises a type of its own
        found = f"found: {local_tpu()}" if settings.kind == "auto" else "kind: tpu"
        raise MlmError(
            f"No TPU can be used. Tried a TPU of this machine ({found}). TensorFlow "
            f"{tf.__version__} says: {first_line(error)}. Rehearse here with "
            "accelerator.virtual_replicas: 8, set accelerator.kind: cpu, or run on a TPU VM with "
            "the packages of envs/requirements-tpu-tensorflow.txt (docs/tpu.md)."
        ) from error
    return tf.distribute.TPUStrategy(resolver)
