"""Renew the locks with uv: python envs/lock.py [envs/requirements.in ...]; without names, all.

A lock pins the packages of its .in file, with their hashes. For another .in file that this names
(-r), it names that file's lock, which is renewed first, and pins only what comes on top.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ENVS = Path(__file__).parent
#: Those that are for one Python and Linux on x86-64 alone.
_FOR_LINUX = ("requirements-pytorch", "requirements-tpu-tensorflow", "requirements-transformers4")
#: What others ask for and is not wanted: torch has builds of its own for a CPU, and what only a GPU
#: needs is large.
_EXCLUDED = {
    "requirements-pytorch": "torch",
    "requirements-preflight-gpu": "nvidia-cublas-cu12\nnvidia-cuda-nvrtc-cu12",
}
_NAMED = re.compile(r"^-r (\S+)\n", re.M)


def pins_of(*locks: Path) -> str:
    """The pins of locks and of those that they name, each once."""
    text = "".join(
        _NAMED.sub(lambda named: pins_of(ENVS / named[1]), lock.read_text()) for lock in locks
    )
    return "".join(dict.fromkeys(re.findall(r"^\S.*\n(?: .*\n)*", text, re.M)))


@cache
def write_lock(source: Path) -> None:
    lock = source.with_suffix(".txt")
    named = [ENVS / name for name in _NAMED.findall(source.read_text())]
    for other in named:
        write_lock(other)
    below = [other.with_suffix(".txt") for other in named]
    command = ["uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-header"]
    command += ["--no-emit-index-url", "--no-annotate", "--excludes", "/dev/stdin"]
    command += ["--python-version", "3.11", str(source), "--output-file", str(lock)]
    linux = source.stem in _FOR_LINUX
    command += ["--python-platform", "x86_64-manylinux_2_31"] if linux else ["--universal"]
    for other in below:
        command += ["--constraints", str(other)]
    for package in re.findall(r"^([a-z0-9._-]+)==", pins_of(*below), re.M):
        command += ["--no-emit-package", package]
    subprocess.run(command, input=_EXCLUDED.get(source.stem, ""), text=True, check=True)
    lock.write_text("".join(f"-r {other.name}\n" for other in below) + lock.read_text())


def write_environment() -> None:
    """Write the pins of every rule's packages for conda: Snakemake copies environment.yaml alone,
    so that it cannot name a lock."""
    path = ENVS / "environment.yaml"
    head, last, _ = path.read_text().partition("--require-hashes\n")
    pins = pins_of(ENVS / "requirements.txt", ENVS / "requirements-tpu.txt")
    pins = re.sub(r"^    ", "        ", pins.replace(" \\\n", "\n"), flags=re.M)
    path.write_text(head + last + re.sub(r"^(?=\S)", "      - ", pins, flags=re.M))


if __name__ == "__main__":
    for source in map(Path, sys.argv[1:] or sorted(ENVS.glob("*.in"))):
        write_lock(ENVS / source.name)
    write_environment()
