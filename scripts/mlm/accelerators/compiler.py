"""XLA's TPU compiler on a machine without a TPU.

libtpu holds the compiler for every TPU generation and can be given the description of a
topology instead of a device (ahead-of-time compilation, as in `jax.experimental.topologies`).
Compilations run in a process of their own (`python -m mlm.accelerators.compiler`), so that one
that dies, or is killed for its memory, takes no other target with it.
"""

import json
import re
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from mlm.accelerators.artefacts import Collective, Memory
from mlm.accelerators.roofline import collectives_of
from mlm.accelerators.stablehlo import compile_stablehlo
from mlm.config.chips import CHIP_CONFIGURATIONS, generation_of
from mlm.foundations.environment import child_environment, install_command
from mlm.foundations.errors import MlmError

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
UNKNOWN_TARGET, HOST_MEMORY = "unknown_target", "out_of_host_memory"

#: The libtpu that TensorFlow needs on a TPU is older, and this JAX cannot load it.
OLDEST_LIBTPU = (0, 0, 42)

#: Words of a compiling process if this machine has no memory left for it.
_NO_HOST_MEMORY = re.compile(
    r"MemoryError|bad_alloc|Cannot allocate memory|Memory allocation|failed to map segment|"
    r"pthread_create|can't start new thread|Resource temporarily unavailable",
    re.IGNORECASE,
)

#: Begins a line of a compiling process that is an answer.
_ANSWER = "answer: "

#: The lock that has the compiler.
_LOCK = "requirements-preflight.txt"


@dataclass(frozen=True)
class Compilation:
    """The compiler's answer for one program on one target.

    `outcome` is one of the names above, `message` says why if it is not "compiled". `flops`,
    `bytes_accessed` and `collectives` are those of one step of one replica, in which a loop's body
    counts once.
    """

    outcome: str
    message: str = ""
    replicas: int = 0
    hosts: int = 0
    chips: int = 0
    memory: Memory | None = None
    flops: float = 0.0
    bytes_accessed: float = 0.0
    collectives: list[Collective] = field(default_factory=list)


#: A file with StableHLO or with the description of a step in JSON; or such a description.
Program = str | Path | dict[str, Any]


def compile_for(target: str, *programs: Program, quick: bool = False) -> list[Compilation]:
    """Compile programs for all devices of `target`, one after the other in one process.

    A `quick` compilation spends the least effort on fast code, which takes a quarter of the time;
    its memory and FLOPs are those of a full one within a few percent. Never raises for a fault of
    the target or the program: that is the answer. If the process dies, so does every program that
    it has not answered yet.
    """
    asked = {"target": target, "programs": programs, "quick": quick}
    process = subprocess.run(
        [sys.executable, "-m", "mlm.accelerators.compiler"],
        input=json.dumps(asked, default=str),
        capture_output=True,
        text=True,
        env=child_environment() | ENVIRONMENT,
    )
    lines = [line for line in process.stdout.splitlines() if line.startswith(_ANSWER)]
    reader = TypeAdapter(Compilation)
    answers = [reader.validate_json(line.removeprefix(_ANSWER)) for line in lines]
    return answers + [_died(process)] * (len(programs) - len(answers))


def _died(process: subprocess.CompletedProcess) -> Compilation:
    last = _first_lines("\n".join(process.stderr.strip().splitlines()[-3:]))
    if process.returncode == -signal.SIGKILL or _NO_HOST_MEMORY.search(process.stderr):
        return _out_of_host_memory(last)
    return Compilation(REFUSED, f"the compiler ended with status {process.returncode}: {last}")


def _out_of_host_memory(said: str) -> Compilation:
    return Compilation(
        HOST_MEMORY,
        "the compiler ran out of this machine's memory. Give the job more (--set-resources "
        "compile_train_step:mem_mb=8000, or a larger machine), or name fewer targets in "
        "preflight.targets" + (f". Its last words: {said}" if said else ""),
    )


def _first_lines(text: str) -> str:
    """The part of a compiler's message that a person reads."""
    text = text.split("Suspected Python Code Location")[0].split("\nError encountered")[0]
    text = " ".join(text.split())
    return text if len(text) <= 600 else text[:600] + " …"


def compiler_versions() -> dict[str, str]:
    """Versions of the packages that the compiler comes from."""
    return {p: version(p) for p in ("jax", "jaxlib", "libtpu") if find_spec(p) is not None}


def require_compiler() -> None:
    """Raise MlmError, with the command that installs it, if the compiler is missing or unfit."""
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


def compile_here(target: str, program: Program, quick: bool) -> Compilation:
    """`compile_for` of one program, in this process, which was started with `ENVIRONMENT`."""
    description = program if isinstance(program, dict) else _description_in(program)
    if description is not None:
        from mlm.training.in_jax.devices import prepare_jax

        prepare_jax("cpu", 1, None)
    shape = {}
    try:
        devices = _devices_of(target)
        shape = {
            "replicas": len(devices),
            "hosts": len({d.process_index for d in devices}),
            "chips": len({tuple(d.coords) for d in devices}),
        }
        if description is None:
            executable = compile_stablehlo(devices, program, quick)
        else:
            from mlm.accelerators.described_steps import compile_description

            executable = compile_description(devices, description, quick)
    except (MlmError, RuntimeError, ValueError) as error:  # JaxRuntimeError too
        return _fault(target, str(error), shape)
    costs = executable.cost_analysis()
    return Compilation(
        COMPILED,
        **shape,
        memory=_memory(executable.get_compiled_memory_stats()),
        flops=float(costs["flops"]),
        bytes_accessed=float(costs["bytes accessed"]),
        collectives=[
            found
            for module in executable.hlo_modules()
            for found in collectives_of(module.to_string(), len(devices))
        ],
    )


def _memory(stats) -> Memory:
    arguments, outputs = stats.argument_size_in_bytes, stats.output_size_in_bytes
    aliased, code = stats.alias_size_in_bytes, stats.generated_code_size_in_bytes
    temporaries = stats.temp_size_in_bytes
    allocated = arguments + outputs - aliased + temporaries + code
    peak = stats.peak_memory_in_bytes
    return Memory(arguments, outputs, aliased, temporaries, code, peak, allocated)


def _fault(target: str, text: str, shape: dict[str, int]) -> Compilation:
    """The answer that an error gives; without a `shape` the target could not be described."""
    words = _first_lines(text)
    if _NO_HOST_MEMORY.search(text):
        return _out_of_host_memory(words)
    if not shape:
        return Compilation(UNKNOWN_TARGET, f"the compiler knows no target {target!r}: {words}")
    memory = "RESOURCE_EXHAUSTED" in text or "exceeds available HBM" in text
    return Compilation(NO_MEMORY if memory else REFUSED, words, **shape)


def _description_in(program: str | Path) -> dict | None:
    """The description of a step in the file `program`, None for StableHLO."""
    content = Path(program).read_bytes()
    return json.loads(content) if content.startswith(b"{") else None


def _devices_of(target: str) -> list:
    from jax.experimental import topologies

    configuration = CHIP_CONFIGURATIONS.get(generation_of(target))
    options = {"chip_config_name": configuration} if configuration else {}
    return topologies.get_topology_desc(platform="tpu", topology_name=target, **options).devices


def main() -> None:
    """A request of `compile_for` on stdin; one line of stdout for the answer to each program."""
    request = json.load(sys.stdin)
    for program in request["programs"]:
        found = compile_here(request["target"], program, request["quick"])
        print(_ANSWER + json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
