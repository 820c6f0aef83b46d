"""One environment for every test, whichever others share its process and whatever their order.

TensorFlow and JAX read these variables once, when they are imported. Without them,
the first test that imports JAX would decide for all: JAX asks every device that it knows, and
libtpu then leaves the variables of a TPU machine behind, for which later trainings look. What a
test starts as a user would does not see them.
"""

import os
import subprocess
import sys
import time

import pytest

_GIVEN = dict(os.environ)
_SET = {"JAX_PLATFORMS": "cpu", "NPROC": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
os.environ.update(_SET)
# Hundreds of processes would each compile the library anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: The folders that begin: the long modules. The many short ones keep all processes busy to the end.
_FIRST = ("publishing", "training", "finetuning", "workflow")


def not_here(reason: str) -> None:
    """Skip where a service cannot be had; fail where everything has to be tested."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def waited_for(condition, seconds: float = 600.0, told=lambda: ""):
    """What `condition()` returns once it is true; `told()` says what went wrong meanwhile."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {seconds} s\n{told()}"
        time.sleep(0.05)
    return found


def ended(*command, status: int | None = 0, **how) -> subprocess.CompletedProcess:
    """Run a program to its end, which has `status` (None: any); what it prints is kept as text."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **how)
    assert status in (None, done.returncode), (done.stdout + done.stderr)[-6000:]
    return done


def refusal(act, *given, **how) -> str:
    """The message of the MlmError with which `act` ends."""
    from mlm.foundations.errors import MlmError

    with pytest.raises(MlmError) as caught:
        act(*given, **how)
    return str(caught.value)


def users_environment() -> dict[str, str]:
    """The environment as a test may have changed it, without what is set here."""
    rest = {k: v for k, v in os.environ.items() if k not in _SET and k != "XLA_FLAGS"}
    return rest | {k: _GIVEN[k] for k in (*_SET, "XLA_FLAGS") if k in _GIVEN}


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: (*_FIRST, item.path.parent.name).index(item.path.parent.name))
