"""The environment of this process: its packages and their versions, checked before the first job,
and what a child process is given."""

import importlib.metadata
import os
import re
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from mlm.foundations.errors import MlmError, listed
from mlm.foundations.supported_python import unsuitable

ENVIRONMENTS = Path(__file__).parents[3] / "envs"
_LIBRARY = Path(__file__).parents[2]

#: The packages that the workflow itself imports, whichever framework trains.
PACKAGES = (
    *("datasets", "google-crc32c", "huggingface-hub", "jinja2", "matplotlib", "numpy", "orjson"),
    *("pandas", "pyarrow", "safetensors", "scipy", "sentencepiece", "tokenizers", "transformers"),
    "zstandard",
)
#: By engine, what computes: one of the two is needed. On a TPU VM tensorflow has another name.
FRAMEWORKS = {"jax": ("jax", "jaxlib"), "tensorflow": ("tensorflow", "tf-keras")}
NO_JAX = (
    "JAX is not installed here, which pretraining.engine: jax and fine-tuning need. It comes with "
    "envs/requirements.txt; on a TPU VM it wants an environment of its own (pip install "
    "'jax[tpu]'), since TensorFlow's there needs an older libtpu"
)
NO_TENSORFLOW = (
    "TensorFlow is not installed here, which pretraining.engine: tensorflow needs. It comes with "
    "envs/requirements.txt; or set engine: jax"
)


def install_command(lock: str) -> str:
    """The one command that brings what `lock`, a file in envs/, pins to this environment."""
    python, file = (
        os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
        for path in (Path(sys.executable), ENVIRONMENTS / lock)
    )
    # A lock names every package that is needed, and leaves out what only asks for disk.
    return f"{python} -m pip install --no-deps --no-compile --require-hashes -r {file}"


def pinned_versions(requirements: Path) -> dict[str, str]:
    """Package versions that a requirements file pins with `==`."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", requirements.read_text(), re.MULTILINE)
    return {name.lower().replace("_", "-"): version for name, version in pins}


@cache
def installed_version(package: str) -> str | None:
    """The installed version of `package` or of what stands in for it, else None."""
    for name in (package, f"{package}-tpu", f"{package}-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def check_encoding() -> None:
    """Raise MlmError if Python reads file names in another encoding than UTF-8, as some locales and
    PYTHONUTF8=0 make it."""
    if (encoding := sys.getfilesystemencoding().lower()) != "utf-8":
        raise MlmError(
            f"Python reads file names as {encoding} here; UTF-8 is expected. Put PYTHONUTF8=1 "
            "before the same command"
        )


def check_environment(requirements: Path = ENVIRONMENTS / "requirements.txt") -> None:
    """Raise MlmError if Python or its encoding does not suit, or a package or its version."""
    check_encoding()
    if wrong := unsuitable(sys.version_info):
        raise MlmError(
            f"{wrong}. This one is {sys.executable}. Remove the environment and make it with "
            "another Python: python3 scripts/check_python.py says which"
        )
    problems = []
    pins = pinned_versions(requirements)
    optional = (p for packages in FRAMEWORKS.values() for p in packages if installed_version(p))
    if not any(map(installed_version, FRAMEWORKS)):
        problems.append("neither jax nor tensorflow is installed; one of them is expected")
    for package in (*PACKAGES, *optional):
        found, wanted = installed_version(package), pins.get(package)
        if found is None:
            problems.append(f"{package} is missing; {package}=={wanted} is expected")
        elif found.split("+")[0] != wanted:
            problems.append(f"{package} {found} is installed; {wanted} is expected")
    if problems:
        raise MlmError(
            f"This environment ({sys.prefix}) cannot run the workflow:\n{listed(problems)}\n"
            f"Install what is pinned: {install_command(requirements.name)}\n"
            "Or let Snakemake make an environment for the jobs: add --sdm conda to the same command"
        )


def missing_frameworks(engines: Collection[str]) -> list[str]:
    """A line for each of `engines` whose framework is missing here. Without any framework, this is
    an environment for plans alone, and jobs have another."""
    if not any(map(installed_version, FRAMEWORKS)):
        return []
    lines = {"jax": NO_JAX, "tensorflow": NO_TENSORFLOW}
    return [line for e, line in lines.items() if e in engines and not installed_version(e)]


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Installed versions of `packages` by name."""
    return {p: v for p in packages if (v := installed_version(p)) is not None}


def child_environment(*places: Path) -> dict[str, str]:
    """This environment for a process of the library's own (`python -m mlm.…`), with the library and
    `places` before what PYTHONPATH names already."""
    names = [*map(str, (_LIBRARY, *places)), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(names)}
