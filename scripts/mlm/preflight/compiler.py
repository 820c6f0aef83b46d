"""XLA's compilers for TPUs and GPUs on a machine without either.

libtpu and JAX's CUDA plugin hold compilers that take the description of a topology or of a card
instead of a device (ahead-of-time compilation, as in `jax.experimental.topologies`).
Compilations run in a process of their own (`python -m mlm.preflight.compiler`), so that one
that dies, or is killed for its memory, takes no other target with it.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from pydantic import TypeAdapter

from mlm.config.chips import (
    CHIP_CONFIGURATIONS,
    CHIPS,
    GPU_MEMORY_SHARE,
    GPUS,
    GpuFacts,
    generation_of,
    is_gpu,
    memory_of_a_replica,
    number_of_chips,
)
from mlm.foundations.environment import child_environment, install_command, installed_version
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import in_binary_bytes
from mlm.preflight.artefacts import Memory

#: Environment that lets libtpu load where there is no TPU and no metadata server. The first
#: one alone would leave a lock file that a second process stumbles over.
ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}

#: XLA would time kernels to choose among them, and some of its own only it can build, on a card.
_GPU_FLAGS = (
    "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false --xla_gpu_deterministic_ops=true"
)
#: How a compilation can end.
COMPILED, NO_MEMORY, REFUSED = "compiled", "out_of_hbm", "refused"
UNKNOWN_TARGET, HOST_MEMORY = "unknown_target", "out_of_host_memory"
#: The libtpu that TensorFlow needs on a TPU is older, and this JAX cannot load it.
OLDEST_LIBTPU = (0, 0, 42)

#: Words of a compiling process if this machine has no memory left for it.
_NO_HOST_MEMORY = re.compile(
    r"MemoryError|bad_alloc|Cannot allocate memory|Memory allocation|failed to map segment|"
    r"pthread_create|can't start new thread|Resource temporarily unavailable",
    re.IGNORECASE,
)

#: Lines that say nothing about a compilation.
_NOISE = re.compile(r"I\d{4} |WARNING: All log messages before")
#: Begins a line of a compiling process that is an answer.
_ANSWER = "answer: "
#: The locks that have the compilers.
_LOCK, _GPU_LOCK = "requirements-tpu.txt", "requirements-preflight-gpu.txt"
#: The packages of the GPU's: XLA's backend, ptxas and the library of its attention.
GPU_COMPILER = (
    *("jax-cuda12-pjrt", "jax-cuda12-plugin", "nvidia-cuda-nvcc-cu12", "nvidia-cudnn-cu12"),
)


@dataclass(frozen=True)
class Compilation:
    """The compiler's answer for one step on one target.

    `outcome` is one of the names above, `message` says why if it is not "compiled". `flops` and
    `bytes_accessed` are those of one step of one replica; of the bytes, a loop's body counts once.
    """

    outcome: str
    message: str = ""
    replicas: int = 0
    hosts: int = 0
    chips: int = 0
    memory: Memory | None = None
    flops: float = 0.0
    bytes_accessed: float = 0.0


def compile_for(target: str, *steps: dict[str, Any], quick: bool = False) -> list[Compilation]:
    """Compile described `steps` for all devices of `target`, one after the other in one process.

    A `quick` compilation spends the least effort on fast code, which takes a quarter of the time;
    its memory is that of a full one within a few percent. Never raises for a fault of the target or
    a step: that is the answer. If the process dies, so does every step that it has not answered.
    """
    process = subprocess.run(
        [sys.executable, "-m", "mlm.preflight.compiler"],
        input=json.dumps({"target": target, "steps": steps, "quick": quick}),
        capture_output=True,
        text=True,
        env=child_environment() | ENVIRONMENT,
    )
    lines = [line for line in process.stdout.splitlines() if line.startswith(_ANSWER)]
    reader = TypeAdapter(Compilation)
    answers = [reader.validate_json(line.removeprefix(_ANSWER)) for line in lines]
    return answers + [_died(process)] * (len(steps) - len(answers))


def _died(process: subprocess.CompletedProcess) -> Compilation:
    lines = [line for line in process.stderr.strip().splitlines() if not _NOISE.match(line)]
    words = _first_lines("\n".join(lines[-3:]))
    if process.returncode == -signal.SIGKILL or _NO_HOST_MEMORY.search(process.stderr):
        return _out_of_host_memory(words)
    return Compilation(REFUSED, f"the compiler ended with status {process.returncode}: {words}")


def _out_of_host_memory(words: str) -> Compilation:
    return Compilation(
        HOST_MEMORY,
        "the compiler ran out of this machine's memory, or was killed. Run it again with more "
        "(--forcerun compile_train_step --set-resources compile_train_step:mem_mb=16000, or a "
        "larger machine), or name fewer targets in preflight.targets"
        + (f". Its last words: {words}" if words else ""),
    )


def _first_lines(text: str) -> str:
    """The part of a compiler's message that a person reads."""
    text = text.split("Suspected Python Code Location")[0].split("\nError encountered")[0]
    text = " ".join(text.split())
    return text if len(text) <= 600 else text[:600] + " …"


def compiler_versions() -> dict[str, str]:
    """Versions of the packages that the compilers come from."""
    versions = {p: installed_version(p) for p in ("jax", "jaxlib", "libtpu", *GPU_COMPILER)}
    return {package: version for package, version in versions.items() if version}


def require_compilers(targets: Iterable[str]) -> None:
    """Raise MlmError, with the command that installs it, if a compiler for `targets` is missing."""
    for_gpus = {is_gpu(target) for target in targets}
    missing = [package for package in GPU_COMPILER if installed_version(package) is None]
    if True in for_gpus and missing:
        raise MlmError(
            f"The preflight for GPUs needs {', '.join(missing)}, missing in {sys.prefix}. No GPU "
            "and no driver is needed, and they are made for Linux. One command installs them: "
            f"{install_command(_GPU_LOCK)}"
        )
    if False not in for_gpus:
        return
    if find_spec("libtpu") is None:
        raise MlmError(
            "The preflight needs libtpu, the TPU compiler, which is not installed in "
            f"{sys.prefix}. It needs no TPU, and is made for Linux on x86-64 alone. There, one "
            f"command installs it: {install_command(_LOCK)}"
        )
    if tuple(map(int, re.findall(r"\d+", version("libtpu"))[:3])) < OLDEST_LIBTPU:
        raise MlmError(
            f"libtpu {version('libtpu')} is the one that TensorFlow needs on a TPU; the compiler "
            f"needs {'.'.join(map(str, OLDEST_LIBTPU))} or later. Run the preflight in the "
            f"environment of envs/{_LOCK}, on any machine with Linux on x86-64: it needs no TPU"
        )


def compile_here(target: str, description: dict[str, Any], quick: bool) -> Compilation:
    """`compile_for` of one step, in this process, which was started with `ENVIRONMENT`."""
    from mlm.training.in_jax.devices import prepare_jax

    prepare_jax("cpu", 1, None)
    if is_gpu(target):
        os.environ["XLA_FLAGS"] += f" {_GPU_FLAGS}"
    shape: dict[str, Any] = {}
    try:
        devices = _devices_of(target)
        shape = {
            "replicas": len(devices),
            "hosts": len({d.process_index for d in devices}),
            "chips": number_of_chips(target),
        }
        from mlm.preflight.described_steps import compile_description

        executable, costs = compile_description(devices, description, quick)
    except Exception as error:  # whatever the step raises when it is traced, lowered or compiled
        return _fault(target, str(error), shape)
    memory = _memory(executable.get_compiled_memory_stats(), is_gpu(target))
    # A TPU's compiler refuses what does not fit; a GPU's does not know what else takes memory.
    fits = not is_gpu(target) or memory.allocated <= memory_of_a_replica(target)
    return Compilation(
        COMPILED if fits else NO_MEMORY,
        "" if fits else _too_large(target, memory.allocated),
        **shape,
        memory=memory,
        flops=float(costs.get("flops", 0)),
        bytes_accessed=float(costs.get("bytes accessed", 0)),
    )


def _memory(stats: Any, at_once: bool) -> Memory:
    """`at_once`: a GPU's temporaries are one allocation, and exist as long as the step."""
    arguments, outputs = stats.argument_size_in_bytes, stats.output_size_in_bytes
    aliased, code = stats.alias_size_in_bytes, stats.generated_code_size_in_bytes
    temporaries = stats.temp_size_in_bytes
    allocated = arguments + outputs - aliased + temporaries + code
    peak = allocated if at_once else stats.peak_memory_in_bytes
    return Memory(arguments, outputs, aliased, temporaries, code, peak, allocated)


def _too_large(target: str, needed: int) -> str:
    whole, share = CHIPS[generation_of(target)].hbm_bytes, GPU_MEMORY_SHARE
    return (
        f"one replica needs {in_binary_bytes(needed)}, and JAX takes "
        f"{in_binary_bytes(memory_of_a_replica(target))} of the card's "
        f"{in_binary_bytes(whole)} ({share:.0%})"
    )


def _fault(target: str, text: str, shape: dict[str, Any]) -> Compilation:
    """The answer that an error gives; without a `shape` the target could not be described."""
    words = _first_lines(text)
    if _NO_HOST_MEMORY.search(text):
        return _out_of_host_memory(words)
    if not shape:
        return Compilation(UNKNOWN_TARGET, f"the compiler knows no target {target!r}: {words}")
    memory = "RESOURCE_EXHAUSTED" in text or "exceeds available HBM" in text
    return Compilation(NO_MEMORY if memory else REFUSED, words, **shape)


def target_config(facts: GpuFacts) -> str:
    """The card as XLA's GPU compiler asks for it: a GpuTargetConfigProto (xla/stream_executor/
    device_description.proto) as text. A block of threads has 1 KiB less of a core's shared memory
    than there is, up to compute capability 7.5 all of it."""
    core, (cores, l2_mib, clock) = facts.core, facts.chip
    major, minor = core.compute_capability
    reserved = 1024 if major >= 8 else 0
    return f"""
        gpu_device_info {{
          threads_per_block_limit: 1024 threads_per_warp: 32
          threads_per_core_limit: {core.threads}
          core_count: {cores} fpus_per_core: {core.units}
          clock_rate_ghz: {clock}
          shared_memory_per_block: 49152
          shared_memory_per_core: {core.shared_bytes}
          shared_memory_per_block_optin: {core.shared_bytes - reserved}
          registers_per_core_limit: 65536 registers_per_block_limit: 65536
          block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
          memory_bandwidth: {facts.hbm_bytes_per_second:.0f}
          device_memory_size: {facts.usable_bytes}
          l2_cache_size: {l2_mib * 2**20}
          cuda_compute_capability {{ major: {major} minor: {minor} }}
        }}
        platform_name: "CUDA"
        runtime_version {{ major: 12 minor: 9 patch: 0 }}
        dnn_version_info {{ major: 9 minor: 10 }}
        device_description_str: "{facts.description}"
    """


def _devices_of(target: str) -> list:
    from jax.experimental import topologies

    if is_gpu(target):
        described = {
            "target_config": target_config(GPUS[generation_of(target)]),
            "topology": f"1x1x{number_of_chips(target)}",
        }
        return topologies.get_topology_desc(platform="cuda", **described).devices
    configuration = CHIP_CONFIGURATIONS.get(generation_of(target))
    options = {"chip_config_name": configuration} if configuration else {}
    return topologies.get_topology_desc(platform="tpu", topology_name=target, **options).devices


def main() -> None:
    """A request of `compile_for` on stdin; one line of stdout for the answer to each step."""
    request = json.load(sys.stdin)
    for description in request["steps"]:
        answer = compile_here(request["target"], description, request["quick"])
        print(_ANSWER + json.dumps(asdict(answer)), flush=True)


if __name__ == "__main__":
    main()
