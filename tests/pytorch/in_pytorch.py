"""Models opened by transformers in the environments that have PyTorch, or TensorFlow and Flax."""

import subprocess
from pathlib import Path

from tests.conftest import not_here

HERE = Path(__file__).parent


def python_of(environment: str) -> Path:
    """The Python of an environment; skips the test where there is none, and fails it in CI."""
    python = HERE.parents[1] / f".venv-{environment}" / "bin" / "python"
    if not python.exists():
        not_here(f"no .venv-{environment}; make it with tests/make_environment.sh {environment}")
    return python


def run_in(environment: str, script: str, *arguments) -> str:
    command = [python_of(environment), HERE / script, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
