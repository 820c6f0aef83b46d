"""The device that trains, and the TensorFlow distribution strategy over it."""

import sys
from dataclasses import dataclass

from mlm.config.accelerator import Accelerator
from mlm.foundations.errors import MlmError
from mlm.foundations.framework import tf, tf_keras
from mlm.training.local_devices import cpu_multiplies_bfloat16, local_gpu, local_tpu
from mlm.training.processes import Peers


@dataclass(frozen=True)
class StrategyDevices:
    """A strategy with its kind ("cpu", "gpu" or "tpu") and precision, ready for use, and the equal
    parts of a batch that a CPU computes at the same time."""

    strategy: tf.distribute.Strategy
    kind: str
    precision: str
    lanes: int = 1
    framework = "tensorflow"
    group = Peers()

    @property
    def replicas(self) -> int:
        return self.strategy.num_replicas_in_sync

    @property
    def name(self) -> str:
        return type(self.strategy).__name__

    def arithmetic(self) -> dict:
        """What else of the devices, once they are open, decides how numbers are rounded."""
        return {
            "policy": tf_keras.mixed_precision.global_policy().name,
            "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
            "lanes": self.lanes,
        }


def open_strategy(settings: Accelerator, batch: int = 1) -> StrategyDevices:
    """Set up the devices that `settings` ask for. Call once, before any other TensorFlow.

    `batch` is the number of samples of which a replica computes gradients at once.

    Raises MlmError when there is no such device, saying what was looked for.
    """
    kind = "cpu"
    if not settings.virtual_replicas:
        kind = _kind_of_this_machine() if settings.kind == "auto" else settings.kind
    threads, lanes = settings.cpu_threads, settings.lanes(batch) if kind == "cpu" else 1
    # The order in which a CPU adds up depends on its number of threads, so that this number
    # is part of the result and never what the scheduler happens to give.
    tf.config.threading.set_intra_op_parallelism_threads(threads // lanes)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    if settings.virtual_replicas:
        strategy = _virtual_replicas(settings)
    else:
        strategy = {"cpu": _cpu, "gpu": _gpu, "tpu": _tpu}[kind](settings)
    precision = settings.precision
    if precision == "auto":
        half = kind == "tpu" or (kind == "cpu" and cpu_multiplies_bfloat16())
        precision = "bfloat16" if half else "float32"
    tf_keras.mixed_precision.set_global_policy(
        "mixed_bfloat16" if precision == "bfloat16" else "float32"
    )
    return StrategyDevices(strategy=strategy, kind=kind, precision=precision, lanes=lanes)


def _kind_of_this_machine() -> str:
    """What `auto` comes to; a GPU that TensorFlow cannot use is told on stderr."""
    if local_tpu():
        return "tpu"
    if tf.config.list_physical_devices("GPU"):
        return "gpu"
    if gpu := local_gpu():
        lacks = (
            "finds no CUDA libraries or driver for it"
            if tf.test.is_built_with_cuda()
            else "was built without CUDA"
        )
        print(
            f"Warning: this machine has an NVIDIA GPU ({gpu}), but TensorFlow {tf.__version__} "
            f"{lacks}: the CPU is used. Check nvidia-smi, install envs/requirements-gpu.txt, "
            "or set accelerator.kind: cpu where that is meant",
            file=sys.stderr,
        )
    return "cpu"


def _cpu(settings: Accelerator) -> tf.distribute.Strategy:
    tf.config.set_visible_devices([], "GPU")
    return tf.distribute.OneDeviceStrategy("/cpu:0")


def _virtual_replicas(settings: Accelerator) -> tf.distribute.Strategy:
    tf.config.set_visible_devices([], "GPU")
    cpu = tf.config.list_physical_devices("CPU")[0]
    count = settings.virtual_replicas
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    )
    return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(count)])


def _gpu(settings: Accelerator) -> tf.distribute.Strategy:
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise MlmError(
            "accelerator.kind: gpu, but TensorFlow sees no GPU. Check the driver with "
            "nvidia-smi and install the CUDA libraries (envs/requirements-gpu.txt), "
            "or set accelerator.kind to cpu"
        )
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    return tf.distribute.MirroredStrategy()


def _tpu(settings: Accelerator) -> tf.distribute.Strategy:
    node = settings.tpu
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=node.name, zone=node.zone, project=node.project
        )
        if node.name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # every layer below raises a type of its own
        raise MlmError(_no_tpu(settings, error)) from error
    return tf.distribute.TPUStrategy(resolver)


def _no_tpu(settings: Accelerator, error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if settings.kind == "auto":
        return (
            f"accelerator.kind: auto found a TPU on this machine ({local_tpu()}), and TensorFlow "
            f"{tf.__version__} cannot use it. TensorFlow says: {reason}. Install the packages of "
            "envs/requirements-tpu.txt, which docs/tpu.md describes, or set accelerator.kind: cpu"
        )
    node = settings.tpu
    if node.name == "local":
        looked = "a TPU of this machine (accelerator.tpu.name: local, as on a TPU VM)"
        advice = (
            "Run on a TPU VM with the packages of envs/requirements-tpu.txt, name a TPU node in "
            "accelerator.tpu, or rehearse here with accelerator.virtual_replicas: 8"
        )
    else:
        looked = f"a TPU node {node.name!r} in zone {node.zone!r} of project {node.project!r}"
        advice = (
            "Check name, zone and project with 'gcloud compute tpus list', that this machine may "
            "reach it and has credentials (gcloud auth application-default login), and that the "
            "packages are those of envs/requirements-tpu.txt"
        )
    return f"No TPU found. Looked for {looked}. TensorFlow says: {reason}. {advice}."
