"""After a kill: the lock of a dead Snakemake is removed, and its living jobs are waited for.

Snakemake locks with files, which outlive a process that is killed. Beside them, every Snakemake
that runs this workflow holds a shared lock of the kernel's (flock(2)), which ends with its holder.
If nobody holds it, and no other machine has held it since Snakemake's lock files were made, these
belong to nobody. A job may outlive its Snakemake; it holds such a lock of its own.
"""

import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import TextIO

from mlm.foundations.terminal import show

_BOOT, _NAME = Path("/proc/sys/kernel/random/boot_id"), socket.gethostname()
#: Containers of one kernel have several names, and one boot id.
_BOOT_ID = _BOOT.read_text().strip() if _BOOT.exists() else _NAME
_HERE = {_NAME, _BOOT_ID}
#: Open as long as this process lives, which keeps the kernel's lock.
_HELD: list[TextIO] = []


def hold_directory(directory: Path, say: Callable[[str], None]) -> None:
    """Hold the working directory `directory` until this process ends; free it of a dead one.

    For the main process of Snakemake, before it looks at its own locks. `say` is called with one
    line on what was removed, or on why a lock that may be a dead one's was left. Never raises:
    where nothing can be written or locked, Snakemake's own locks still hold.
    """
    locks = directory / ".snakemake" / "locks"
    try:
        locks.parent.mkdir(exist_ok=True)
        holder = open(locks.with_name("running-on"), "a+", encoding="utf-8")
    except OSError:
        return
    _HELD.append(holder)
    holder.seek(0)
    # Name and boot id of every machine that ran here since the directory was last free.
    machines, reason = [line.split() for line in holder if line.strip()], ""
    is_locked = locks.is_dir() and any(locks.iterdir())
    try:
        flock(holder, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        pass  # Another one is alive; its own locks tell whether it is in the way.
    except OSError as error:
        reason = f"this file system has no locks that end with a process ({error})"
    else:
        others = [machine[0] for machine in machines if not _HERE & {*machine}]
        if not is_locked:
            holder.truncate(0)
            machines = []
        elif machines and not others:
            shutil.rmtree(locks, ignore_errors=True)
            say("A run that was killed had left this directory locked; the lock was removed.")
        else:
            reason = f"it may run on {', '.join(others) or 'any machine'}"
    if reason and is_locked:
        say(
            f"{locks} holds the lock of another run, which may still be alive: {reason}. If "
            "nothing runs in this directory any more, add --unlock to the same command once, then "
            "run it again without."
        )
    with contextlib.suppress(OSError):  # a full disk; a file system without such locks
        if not any(_HERE & {*machine} for machine in machines):
            os.write(holder.fileno(), f"{_NAME} {_BOOT_ID}\n".encode())
        flock(holder, LOCK_SH)


@contextmanager
def alone(job: str) -> Iterator[None]:
    """Hold the name `job` meanwhile; if another process in this directory has it, wait first."""
    place = Path(".snakemake")
    try:
        (place / "jobs").mkdir(exist_ok=True)
        holder = open(place / "jobs" / job.replace("/", ","), "a+", encoding="utf-8")
    except OSError:  # not run by Snakemake, or not here
        yield
        return
    with holder:
        try:
            flock(holder, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            holder.seek(0)
            show(
                "A job of a run that was killed is still at work on the same results; waiting for "
                f"it to end. To end it now: kill {holder.read().strip()}"
            )
            flock(holder, LOCK_EX)
        except OSError:  # a file system without such locks
            pass
        with contextlib.suppress(OSError):  # a full disk
            os.truncate(holder.fileno(), 0)
            os.write(holder.fileno(), f"{os.getpid()}\n".encode())
        yield
