"""Models opened by PyTorch's transformers, in the environment that has it."""

import subprocess
from pathlib import Path

from tests.conftest import not_here

HERE = Path(__file__).parent


def python_of_pytorch() -> Path:
    """Its Python; skips the test where there is no PyTorch, and fails it in CI."""
    python = HERE.parents[1] / ".venv-pytorch" / "bin" / "python"
    if not python.exists():
        not_here("no .venv-pytorch; make it with tests/pytorch/make_environment.sh")
    return python


def run_in_pytorch(script: str, *arguments) -> str:
    command = [python_of_pytorch(), HERE / script, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
