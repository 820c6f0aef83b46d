"""Say, before anything is installed, whether this Python and this machine suit; else, what to type.

python3 scripts/check_python.py

Any Python 3.8 runs it: no newer syntax here.
"""

import importlib.util
import platform
import subprocess
import sys

from mlm.foundations.supported_python import COMMANDS, unsuitable

PLATFORMS = (("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64"))

UV = "curl -LsSf https://astral.sh/uv/install.sh | sh && ~/.local/bin/uv python install 3.13"


def runs(command: str) -> bool:
    """Whether `command` is a Python that can make environments."""
    try:
        ran = subprocess.run([command, "-c", "import ensurepip, venv"], capture_output=True)
        return not ran.returncode
    except OSError:
        return False


def problem() -> str:
    """What is in the way of an environment here, and what to type; "" where nothing is."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) not in PLATFORMS:
        return (
            f"There are no packages for {system} on {machine}: Linux on x86-64 or aarch64, or "
            "macOS on Apple silicon, is needed. On Windows, install WSL ('wsl --install') and run "
            "the same lines in it"
        )
    wrong = unsuitable(sys.version_info)
    if wrong:
        wrong = f"{wrong} ({sys.executable})"
    elif importlib.util.find_spec("ensurepip") is None:
        wrong = f"{sys.executable} cannot make environments: it comes without ensurepip"
    else:
        return ""
    other = next(filter(runs, COMMANDS), None)
    if other:
        return f"{wrong}. {other} is here: run the same lines with {other} in the place of python3"
    if not unsuitable(sys.version_info):
        package = "python{}.{}-venv".format(*sys.version_info[:2])
        return f"{wrong}. On Debian and Ubuntu: sudo apt-get install {package}"
    return (
        f"{wrong}, and {', '.join(COMMANDS)} are not here. To install one for yourself:\n  {UV}\n"
        "then run the same lines with ~/.local/bin/python3.13 in the place of python3"
    )


if __name__ == "__main__":
    sys.exit(problem() or None)
