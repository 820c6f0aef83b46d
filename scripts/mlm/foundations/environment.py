"""The environment of this process: its packages, checked against their lock, and variables."""

import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from mlm.foundations.errors import MlmError, listed

ENVIRONMENTS = Path(__file__).parents[3] / "envs"

#: The packages that the workflow itself imports, beside TensorFlow, which its engine alone needs.
PACKAGES = (
    *("datasets", "google-crc32c", "huggingface-hub", "jax", "jaxlib", "jinja2", "matplotlib"),
    *("numpy", "orjson", "pandas", "pyarrow", "safetensors", "scipy", "sentencepiece"),
    *("tokenizers", "transformers", "zstandard"),
)
NO_TENSORFLOW = (
    "TensorFlow is not installed here, which pretraining.engine: tensorflow needs. It comes with "
    "envs/requirements.txt; or set engine: jax"
)


def install_command(lock: str) -> str:
    """Return the one command that installs what `lock`, a file in envs/, pins."""
    python, file = (
        os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
        for path in (Path(sys.executable), ENVIRONMENTS / lock)
    )
    # A lock names every package that is needed, and leaves out what only asks for disk.
    return f"{python} -m pip install --no-deps --no-compile --require-hashes -r {file}"


def pinned_versions(requirements: Path) -> dict[str, str]:
    """Return the package versions that a lock, and those that it names, pin with `==`."""
    text = requirements.read_text()
    versions: dict[str, str] = {}
    for other in re.findall(r"^-r (\S+)", text, re.MULTILINE):
        versions |= pinned_versions(requirements.with_name(other))
    return versions | dict(re.findall(r"^([a-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE))


@cache
def installed_version(package: str) -> str | None:
    """Return the installed version of `package`, of any build of TensorFlow, or None."""
    builds = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu")
    for name in builds if package == "tensorflow" else (package,):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the installed versions of `packages` by name."""
    return {p: v for p in sorted(packages) if (v := installed_version(p)) is not None}


def check_environment() -> None:
    """Raise MlmError unless every package of this environment has the version of its lock."""
    lock = "requirements.txt" if installed_version("tensorflow") else "requirements-jax.txt"
    if installed_version("tensorflow-tpu"):
        lock = "requirements-tpu-tensorflow.txt"
    pins, problems = pinned_versions(ENVIRONMENTS / lock), []
    for package in (*PACKAGES, *(["tensorflow"] if installed_version("tensorflow") else [])):
        version, pin = installed_version(package), pins.get(package) or pins[f"{package}-tpu"]
        if version is None:
            problems.append(f"{package} is missing; {package}=={pin} is expected")
        elif version.split("+")[0] != pin:
            problems.append(f"{package} {version} is installed; {pin} is expected")
    if problems:
        raise MlmError(
            f"This environment ({sys.prefix}) cannot run the workflow:\n{listed(problems)}\n"
            f"Install what is pinned: {install_command(lock)}\n"
            "Or let Snakemake make an environment for the jobs: add --sdm conda to the same command"
        )


def child_environment(*places: Path) -> dict[str, str]:
    """Return the variables for a process that runs a module of the library (`python -m mlm.…`),
    with the library and `places` before what PYTHONPATH names already."""
    names = [*map(str, (Path(__file__).parents[2], *places)), os.environ.get("PYTHONPATH")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, names))}
