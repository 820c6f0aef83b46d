"""One environment for every test, whichever others share its process and whatever their order.

TensorFlow and JAX read these variables once, when they are imported. Without them,
the first test that imports JAX would decide for all: JAX asks every device that it knows, and
libtpu then leaves the variables of a TPU machine behind, for which later trainings look. What a
test starts as a user would does not see them.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import pytest

_SET = {"JAX_PLATFORMS": "cpu", "NPROC": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
# Compiling takes longer than what is compiled.
_SET["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
# All processes of the tests share what one of them has compiled.
_SHARED = "PYTEST_XDIST_WORKER" in os.environ and os.environ.get("JAX_COMPILATION_CACHE_DIR")
_COMPILED = None if _SHARED else tempfile.TemporaryDirectory()
_SET["JAX_COMPILATION_CACHE_DIR"] = _SHARED or _COMPILED.name
_SET["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
_SET["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
#: What they were before; the processes of pytest-xdist inherit both.
_GIVEN = json.dumps({name: os.environ[name] for name in _SET if name in os.environ})
_GIVEN = json.loads(os.environ.setdefault("GIVEN_TO_TESTS", _GIVEN))
os.environ.update(_SET)
# Hundreds of processes would each compile the library anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: What begins: the module that makes the tiny workflow, for which others would wait, and folders of
#: long modules. The many short ones keep all processes busy to the end.
_FIRST = ("test_ask_page.py", "publishing", "training", "finetuning", "workflow")


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
    return {name: value for name, value in os.environ.items() if name not in _SET} | _GIVEN


@pytest.fixture(scope="session", autouse=True)
def code_that_is_remembered():
    """Each module is taken apart once in a process."""
    from mlm.foundations import code_digests

    memory = code_digests.FileMemory(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_digests, "FileMemory", lambda _: memory)
        yield


def pytest_collection_modifyitems(items):
    def order(item) -> int:
        names = item.path.name, item.path.parent.name
        return next((i for i, first in enumerate(_FIRST) if first in names), len(_FIRST))

    items.sort(key=order)
