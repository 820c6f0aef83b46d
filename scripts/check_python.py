"""Say, before anything is installed, whether this Python and this machine suit; else, what to type.

python3 scripts/check_python.py

Any Python 3.8 runs it: no newer syntax here.
"""

import importlib.util
import os
import platform
import shutil
import sys
import sysconfig

#: The Pythons that the pinned packages are for.
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 14)
PLATFORMS = (("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64"))
UV = "curl -LsSf https://astral.sh/uv/install.sh | sh && ~/.local/bin/uv python install 3.13"


def problem() -> str:
    """What is in the way of an environment here, and what to type; "" where nothing is."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) not in PLATFORMS:
        return (
            f"There are no packages for {system} on {machine}: Linux on x86-64 or aarch64, or "
            "macOS on Apple silicon, is needed. On Windows, install WSL ('wsl --install') and run "
            "the same lines in it"
        )
    version = ".".join(map(str, sys.version_info[:2]))
    if not OLDEST_PYTHON <= tuple(sys.version_info[:2]) <= NEWEST_PYTHON:
        wrong = f"Python {version} does not suit; the pinned packages are for 3.11 to 3.14"
    elif importlib.util.find_spec("ensurepip") is None:
        wrong = "This Python comes without ensurepip (on Debian and Ubuntu: python3-venv)"
    elif sys.version_info >= (3, 14) and not _builds_packages():
        wrong = (
            "For Python 3.14 one package, immutables, is built from its source, which needs a C "
            "compiler and Python's headers (on Debian and Ubuntu: gcc and python3-dev)"
        )
    else:
        return ""
    return (
        f"{wrong} ({sys.executable}). Run the same lines with another in the place of python3. To "
        f"install one for yourself, ~/.local/bin/python3.13:\n  {UV}"
    )


def _builds_packages() -> bool:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    return shutil.which(compiler) is not None and os.path.exists(header)


if __name__ == "__main__":
    sys.exit(problem() or None)
