"""XLA's compilers for TPUs and GPUs on a machine without either.

libtpu and JAX's CUDA plugin hold compilers that take the description of a topology or of a card
instead of a device (ahead-of-time compilation, as in `jax.experimental.topologies`).
Compilations run in a process of their own (`python -m mlm.preflight.compiler`), so that one
that dies, or is killed for its memory, takes no other target with it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from mlm.config.chips import Gpu, chip_of, is_gpu, number_of_chips
from mlm.foundations.environment import child_environment, install_command, package_versions
from mlm.foundations.errors import MlmError
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
#: Begins a line of a compiling process that is an answer.
_ANSWER = "answer: "
#: The packages of the compilers, XLA's backend for GPUs, ptxas and the library of its attention
#: among them, and the locks that have them.
_TPU_COMPILER, _TPU_LOCK = ("libtpu",), "requirements-tpu.txt"
_GPU_COMPILER, _GPU_LOCK = (
    ("jax-cuda12-pjrt", "jax-cuda12-plugin", "nvidia-cuda-nvcc-cu12", "nvidia-cudnn-cu12"),
    "requirements-preflight-gpu.txt",
)


@dataclass(frozen=True)
class Compilation:
    """The compiler's answer for one step on one target.

    `outcome` is one of the names above, `message` says why if it is not "compiled". `flops` are
    those of one step of one replica.
    """

    outcome: str
    message: str = ""
    memory: Memory | None = None
    flops: float = 0.0


def compile_for(target: str, *steps: dict[str, Any]) -> list[Compilation]:
    """Compile described `steps` for all devices of `target`, one after the other in one process.

    Never raises for a fault of the target or a step: that is the answer. If the process dies, so
    does every step that it has not answered.
    """
    process = subprocess.run(
        [sys.executable, "-m", "mlm.preflight.compiler"],
        input=json.dumps({"target": target, "steps": steps}),
        capture_output=True,
        text=True,
        env=child_environment() | ENVIRONMENT,
    )
    lines = [line for line in process.stdout.splitlines() if line.startswith(_ANSWER)]
    reader = TypeAdapter(Compilation)
    answers = [reader.validate_json(line.removeprefix(_ANSWER)) for line in lines]
    words = _first_lines(" ".join(process.stderr.strip().splitlines()[-3:]))
    died = Compilation(REFUSED, f"the compiler ended with status {process.returncode}: {words}")
    if process.returncode == -signal.SIGKILL:
        died = Compilation(
            HOST_MEMORY,
            "the compiler was killed, as for too much memory. Run it again with more "
            "(--forcerun compile_train_step --set-resources compile_train_step:mem_mb=16000, or a "
            "larger machine), or name fewer targets in preflight.targets",
        )
    return answers + [died] * (len(steps) - len(answers))


def _first_lines(text: str) -> str:
    """Return the part of a compiler's message that a person reads."""
    text = text.split("Suspected Python Code Location")[0].split("\nError encountered")[0]
    text = " ".join(text.split())
    return text if len(text) <= 600 else text[:600] + " …"


def compiler_versions() -> dict[str, str]:
    """Return the versions of the packages that the compilers come from."""
    return package_versions(("jax", "jaxlib", *_TPU_COMPILER, *_GPU_COMPILER))


def require_compilers(targets: Iterable[str]) -> None:
    """Raise MlmError, with the command that installs it, if a compiler for `targets` is missing."""
    installed = compiler_versions()
    for for_gpus in {is_gpu(target) for target in targets}:
        packages, lock = (_GPU_COMPILER, _GPU_LOCK) if for_gpus else (_TPU_COMPILER, _TPU_LOCK)
        if missing := [package for package in packages if package not in installed]:
            kind = "GPUs" if for_gpus else "TPUs"
            raise MlmError(
                f"The preflight for {kind} needs {', '.join(missing)}, missing in {sys.prefix}. "
                "No such device and no driver is needed, and the packages are made for Linux on "
                f"x86-64. One command installs them: {install_command(lock)}"
            )


def compile_here(target: str, description: dict[str, Any]) -> Compilation:
    """Return the answer for one step, in this process, which was started with `ENVIRONMENT`."""
    from mlm.training.in_jax.devices import prepare_jax

    prepare_jax("cpu", 1, None)
    if is_gpu(target):
        os.environ["XLA_FLAGS"] += f" {_GPU_FLAGS}"
    try:
        devices = _devices_of(target)
    except Exception as error:  # of JAX or of the plugin
        words = f"the compiler knows no target {target!r}: {_first_lines(str(error))}"
        return Compilation(UNKNOWN_TARGET, words)
    try:
        from mlm.preflight.steps_and_flops import compile_description

        compiled, flops = compile_description(devices, description)
    except Exception as error:  # whatever the step raises when it is traced, lowered or compiled
        beyond = any(s in str(error) for s in ("RESOURCE_EXHAUSTED", "exceeds available HBM"))
        return Compilation(NO_MEMORY if beyond else REFUSED, _first_lines(str(error)))
    return Compilation(COMPILED, "", _memory(compiled.memory_analysis(), is_gpu(target)), flops)


def _memory(stats: Any, at_once: bool) -> Memory:
    """Return the bytes; `at_once`: a GPU's temporaries exist as long as the step."""
    arguments, outputs = stats.argument_size_in_bytes, stats.output_size_in_bytes
    aliased, code = stats.alias_size_in_bytes, stats.generated_code_size_in_bytes
    temporaries = stats.temp_size_in_bytes
    allocated = arguments + outputs - aliased + temporaries + code
    peak = allocated - code if at_once else stats.peak_memory_in_bytes
    return Memory(arguments, outputs, aliased, temporaries, code, peak, allocated)


def target_config(gpu: Gpu) -> str:
    """Return the card as XLA's GPU compiler asks for it: a GpuTargetConfigProto
    (xla/stream_executor/device_description.proto) as text. A block of threads has 1 KiB less of a
    core's shared memory than there is, up to compute capability 7.5 all of it."""
    core, (cores, l2_mib, clock) = gpu.core, gpu.chip
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
          memory_bandwidth: {1e9 * gpu.rates[0]:.0f}
          device_memory_size: {gpu.usable_bytes}
          l2_cache_size: {l2_mib * 2**20}
          cuda_compute_capability {{ major: {major} minor: {minor} }}
        }}
        platform_name: "CUDA"
        runtime_version {{ major: 12 minor: 9 patch: 0 }}
        dnn_version_info {{ major: 9 minor: 10 }}
        device_description_str: "{gpu.description}"
    """


def _devices_of(target: str) -> list:
    from jax.experimental import topologies

    if isinstance(chip := chip_of(target), Gpu):
        described = {
            "target_config": target_config(chip),
            "topology": f"1x1x{number_of_chips(target)}",
        }
        return topologies.get_topology_desc(platform="cuda", **described).devices
    options = {"chip_config_name": chip.configuration} if chip.configuration else {}
    return topologies.get_topology_desc(platform="tpu", topology_name=target, **options).devices


def main() -> None:
    """Read a request of `compile_for` on stdin, and print a line for the answer to each step."""
    request = json.load(sys.stdin)
    for description in request["steps"]:
        answer = compile_here(request["target"], description)
        print(_ANSWER + json.dumps(asdict(answer)), flush=True)


if __name__ == "__main__":
    main()
