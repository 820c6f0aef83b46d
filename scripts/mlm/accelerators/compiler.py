"""XLA's TPU compiler on a machine without a TPU: the only place that touches private JAX.

libtpu holds the compiler for every TPU generation and can be given the description of a
topology instead of a device (ahead-of-time compilation, as in `jax.experimental.topologies`).
JAX's public interface compiles functions traced by JAX; a module that TensorFlow lowered has
to go through the private parts named in `PRIVATE_INTERFACE`. They are pinned with jax and
libtpu in envs/requirements-preflight.txt, and a test says at once when an update moves them.

Each compilation runs in a process of its own (`python -m mlm.accelerators.compiler`), so that
one that dies, or is killed for its memory, takes no other target with it.
"""

import importlib
import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from mlm.accelerators.collectives import Collective, collectives_of
from mlm.config.chips import CHIP_CONFIGURATIONS, generation_of, nearest_targets
from mlm.foundations.child_process import child_environment
from mlm.foundations.environment import install_command
from mlm.foundations.errors import MlmError

#: What is used of JAX beyond its public interface: module, attribute.
PRIVATE_INTERFACE = (
    ("jax.experimental.topologies", "get_topology_desc"),
    ("jax._src.interpreters.mlir", "make_ir_context"),
    ("jaxlib.mlir.ir", "Module"),
    ("jaxlib.mlir.ir", "DenseElementsAttr"),
    ("jaxlib.xla_client", "CompileOptions"),
    ("jaxlib.xla_client", "DeviceAssignment"),
    ("jaxlib.xla_client", "DeviceList"),
)

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

#: How a compilation can end.
COMPILED, NO_MEMORY, REFUSED = "compiled", "out_of_hbm", "refused"
UNKNOWN_TARGET, NO_COMPILER, HOST_MEMORY = "unknown_target", "no_compiler", "out_of_host_memory"

#: The libtpu that TensorFlow needs on a TPU is older, and this JAX cannot load it.
OLDEST_LIBTPU = (0, 0, 42)

#: What the processes that compile say when this machine has no memory left for them.
_NO_HOST_MEMORY = re.compile(
    r"MemoryError|bad_alloc|Cannot allocate memory|Memory allocation|failed to map segment|"
    r"pthread_create|can't start new thread|Resource temporarily unavailable",
    re.IGNORECASE,
)

#: What a line of a compiling process begins with that is an answer.
_ANSWER = "answer: "

#: The lock that has the compiler.
_LOCK = "requirements-preflight.txt"


@dataclass(frozen=True)
class Compilation:
    """The compiler's answer for one program on one target. Sizes in bytes, for one replica.

    `outcome` is one of the names above, `message` says why where it is not "compiled".
    `peak` is the most that is alive at any time, by XLA's own count
    (`get_compiled_memory_stats().peak_memory_in_bytes`): without the program's `code`, and with
    buffers in the core's own memory, 128 MiB on a v5e.
    `allocated` adds up what is set aside for arguments, outputs that reuse none of them,
    temporaries and code.
    `flops`, `bytes_accessed` and `transcendentals` are XLA's own counts for one step, in which
    a loop's body counts once; so it does in `collectives`.
    `processor_seconds` and `host_memory` (bytes) are what the compilation itself took.
    """

    outcome: str
    message: str = ""
    replicas: int = 0
    hosts: int = 0
    chips: int = 0
    arguments: int = 0
    outputs: int = 0
    aliased: int = 0
    temporaries: int = 0
    code: int = 0
    peak: int = 0
    flops: float = 0.0
    bytes_accessed: float = 0.0
    transcendentals: float = 0.0
    collectives: list[Collective] = field(default_factory=list)
    processor_seconds: float = 0.0
    host_memory: int = 0
    #: The answers for further programs that were compiled in the same process.
    others: tuple["Compilation", ...] = ()

    @property
    def fixed(self) -> int:
        """What does not grow with the batch, nearly."""
        return self.arguments + self.outputs - self.aliased + self.code

    @property
    def allocated(self) -> int:
        return self.fixed + self.temporaries


def compile_for(
    target: str,
    program: str | Path,
    quick: bool = False,
    others: Sequence[str] = (),
    others_quick: bool = False,
    module: str = "mlm.accelerators.compiler",
) -> Compilation:
    """Compile the StableHLO in the file `program` for all devices of `target`, in a process.

    The programs in `others` are compiled after it, each as `others_quick` says. A `quick` one
    spends the least effort on fast code, which takes a quarter of the time; its memory and FLOPs
    are those of a full one within a few in a hundred.

    The program's all-reduces, whatever group they were written for, go over every replica of
    the target. Never raises for what is wrong with the target or the program: that is the
    answer. Another `module` that ends in `answer` may take programs in another form.
    """
    programs = [(str(program), quick), *((other, others_quick) for other in others)]
    requests = [{"target": target, "program": p, "quick": q} for p, q in programs]
    first, *rest = ask(module, requests)
    return replace(first, others=tuple(rest))


def ask(module: str, requests: list[dict]) -> list[Compilation]:
    """What `python -m module`, which ends in `answer`, says to each request, in one process.

    Where it dies, what it has not answered yet has that death as its answer.
    """
    process = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        env=child_environment() | ENVIRONMENT,
    )
    said = [line for line in process.stdout.splitlines() if line.startswith(_ANSWER)]
    answers = [_read(json.loads(line.removeprefix(_ANSWER))) for line in said]
    missing = len(requests) - len(answers)
    return answers + [_died(process)] * missing if missing else answers


def _read(answered: dict) -> Compilation:
    collectives = [Collective(**each) for each in answered["collectives"]]
    return Compilation(**answered | {"collectives": collectives})


def _died(process: subprocess.CompletedProcess) -> Compilation:
    last = _first_lines("\n".join(process.stderr.strip().splitlines()[-3:]))
    # A compiler that refuses a program answers so. One that dies without an answer while its
    # address space is limited found no room: each library says that in words of its own, or
    # in none, and ends with whatever status it likes.
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    killed = process.returncode == -signal.SIGKILL
    if killed or limited or _NO_HOST_MEMORY.search(process.stderr):
        return _out_of_host_memory(resource.RUSAGE_CHILDREN, last)
    return Compilation(REFUSED, f"the compiler ended with status {process.returncode}: {last}")


def _out_of_host_memory(whose: int, last: str = "") -> Compilation:
    peak = resource.getrusage(whose).ru_maxrss // 1024
    return Compilation(
        HOST_MEMORY,
        f"the compiler ran out of this machine's memory (the largest compilation so far took "
        f"{peak} MB). Give the job more (--set-resources compile_train_step:mem_mb=8000, or a "
        "larger machine), or name fewer targets in preflight.targets"
        + (f". Its last words: {last}" if last else ""),
    )


def _first_lines(text: str, limit: int = 600) -> str:
    """The part of a compiler's message that a person reads."""
    text = text.split("Suspected Python Code Location")[0].split("\nError encountered")[0]
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + " …"


def compiler_versions() -> dict[str, str]:
    """Versions of the packages whose compiler speaks here."""
    return {p: version(p) for p in ("jax", "jaxlib", "libtpu") if find_spec(p) is not None}


def require_compiler() -> None:
    """Raise MlmError where libtpu is not installed: with the command that brings it."""
    if find_spec("libtpu") is None:
        raise MlmError(
            "The preflight needs libtpu, the TPU compiler, which is not installed in "
            f"{sys.prefix}. It needs no TPU, and is made for Linux on x86-64 alone. There, one "
            "command brings it: "
            f"{install_command(_LOCK)}"
        )


def missing_private_interface() -> list[str]:
    """What of `PRIVATE_INTERFACE` the installed JAX no longer has.

    Raises ImportError where this machine's memory does not hold it.
    """
    missing = []
    for module, attribute in PRIVATE_INTERFACE:
        try:
            found = hasattr(importlib.import_module(module), attribute)
        except ImportError as error:
            # There, but with no room to be loaded: the process dies of it.
            if _NO_HOST_MEMORY.search(str(error)):
                raise
            found = False
        if not found:
            missing.append(f"{module}.{attribute}")
    return missing


def _compile_here(target: str, program: str, quick: bool = False) -> Compilation:
    """`compile_for` in this process, whose environment is already `ENVIRONMENT`."""
    return compile_here(target, lambda devices: _compiled(devices, program, quick))


def compile_here(target: str, compiled: Callable) -> Compilation:
    """The answer of `compiled`, a function of the target's devices.

    It returns XLA's executable. Only in a process that was
    started by `ask`, with `ENVIRONMENT`.
    """
    try:
        require_compiler()
    except MlmError as error:
        return Compilation(NO_COMPILER, str(error))
    if tuple(map(int, re.findall(r"\d+", version("libtpu"))[:3])) < OLDEST_LIBTPU:
        return Compilation(
            NO_COMPILER,
            f"libtpu {version('libtpu')} is the one that TensorFlow needs on a TPU; the compiler "
            f"needs {'.'.join(map(str, OLDEST_LIBTPU))} or later. Run the preflight in the "
            f"environment of envs/{_LOCK}, on any machine with Linux on x86-64: it needs no TPU",
        )
    missing = missing_private_interface()
    if missing:
        return Compilation(
            NO_COMPILER,
            f"the installed jax lacks {', '.join(missing)}; install the pinned versions of "
            f"envs/{_LOCK}",
        )
    import jax
    from jax.experimental import topologies

    try:
        chips = CHIP_CONFIGURATIONS.get(generation_of(target))
        options = {"chip_config_name": chips} if chips else {}
        devices = topologies.get_topology_desc(
            platform="tpu", topology_name=target, **options
        ).devices
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
        if _NO_HOST_MEMORY.search(str(error)):
            return _out_of_host_memory(resource.RUSAGE_SELF)
        if "libtpu.so" in str(error):
            return Compilation(NO_COMPILER, f"libtpu does not load: {_first_lines(str(error))}")
        return Compilation(
            UNKNOWN_TARGET,
            f"no TPU topology is called {target!r}; nearest: "
            f"{', '.join(nearest_targets(target))}. The compiler says: {_first_lines(str(error))}",
        )
    shape = {
        "replicas": len(devices),
        "hosts": len({d.process_index for d in devices}),
        "chips": len({tuple(d.coords) for d in devices}),
    }
    try:
        executable = compiled(devices)
    except (jax.errors.JaxRuntimeError, RuntimeError) as error:
        text = str(error)
        if _NO_HOST_MEMORY.search(text):
            return _out_of_host_memory(resource.RUSAGE_SELF)
        memory = "RESOURCE_EXHAUSTED" in text or "exceeds available HBM" in text
        return Compilation(NO_MEMORY if memory else REFUSED, _first_lines(text), **shape)
    stats, costs = executable.get_compiled_memory_stats(), executable.cost_analysis()
    return Compilation(
        COMPILED,
        **shape,
        arguments=stats.argument_size_in_bytes,
        outputs=stats.output_size_in_bytes,
        aliased=stats.alias_size_in_bytes,
        temporaries=stats.temp_size_in_bytes,
        code=stats.generated_code_size_in_bytes,
        peak=stats.peak_memory_in_bytes,
        flops=float(costs["flops"]),
        bytes_accessed=float(costs["bytes accessed"]),
        transcendentals=float(costs.get("transcendentals", 0.0)),
        collectives=[
            found
            for module in executable.hlo_modules()
            for found in collectives_of(module.to_string(), len(devices))
        ],
    )


def _compiled(devices, program: str, quick: bool):
    """The executable for one replica on each device."""
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


def _peak_memory() -> int:
    """The most memory that this process had, in bytes.

    `getrusage` would count what its parent had when it started it.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(re.search(r"VmHWM:\s*(\d+) kB", status.read_text())[1]) * 1024


def answer(compilation: Callable[[dict], Compilation]) -> None:
    """Requests as a JSON list on stdin; one line of stdout for the answer to each."""
    before = 0.0
    for request in json.load(sys.stdin):
        found = compilation(request)
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = used.ru_utime + used.ru_stime
        cost = {
            "processor_seconds": round(spent - before, 1),
            "host_memory": _peak_memory(),
        }
        before = spent
        print(_ANSWER + json.dumps(asdict(found) | cost), flush=True)


if __name__ == "__main__":
    answer(lambda request: _compile_here(**request))
