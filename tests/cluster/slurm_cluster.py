"""A real Slurm on this machine: started and stopped by the test, in a directory of its own.

Debian's packages slurmctld, slurmd, slurm-client, munge and slurm-wlm-basic-plugins. Nothing
outside the directory is read or written, so that an installed Slurm is left alone.
"""

import contextlib
import getpass
import os
import shlex
import shutil
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import ended, users_environment, waited_for

PACKAGES = "slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol", "sacct", "sacctmgr")

# More CPUs and memory are declared than there may be: the jobs are tiny, and the profile asks
# for what real ones need. A requeued job waits for its old credential to expire: 5 s here.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={daemon_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={place}/munge.socket,cred_expire=5
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=2,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=30
MinJobAge=600
SlurmdParameters=config_overrides
Licenses=tpu:1
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=64000 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=tpu Nodes={host} MaxTime=INFINITE State=UP
"""


def missing_programs() -> list[str]:
    return [name for name in (*DAEMONS, *COMMANDS[:6]) if _program(name) is None]


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclass
class SlurmCluster:
    """One node with the partitions cpu and tpu; `environment` makes programs use it."""

    place: Path
    environment: dict[str, str] = field(default_factory=dict)
    _daemons: list[subprocess.Popen] = field(default_factory=list)

    def start(self) -> None:
        """Start the daemons and wait until the node takes jobs."""
        host = socket.gethostname().split(".")[0]
        for name in ("state", "spool", "bin"):
            (self.place / name).mkdir(parents=True)
        self.place.chmod(0o755)
        configuration = self.place / "slurm.conf"
        configuration.write_text(
            CONFIGURATION.format(
                host=host,
                place=self.place,
                user=getpass.getuser(),
                controller_port=_free_port(),
                daemon_port=_free_port(),
            )
        )
        self._write_commands(configuration)
        self._munge()
        self._daemon("slurmctld", "-D", "-c", "-f", str(configuration))
        self._daemon("slurmd", "-D", "-f", str(configuration), "-N", host)
        waited_for(
            lambda: "idle" in self.run("sinfo", "-h", "-o", "%T", check=False), 60, self.logs
        )

    def _write_commands(self, configuration: Path) -> None:
        """Commands that know the configuration: job steps drop SLURM_CONF, but keep PATH."""
        for name in COMMANDS:
            if program := _program(name):
                command = self.place / "bin" / name
                words = f"SLURM_CONF={shlex.quote(str(configuration))} exec {program}"
                command.write_text(f'#!/bin/sh\n{words} "$@"\n')
                command.chmod(0o755)
        self.environment = {"PATH": f"{self.place / 'bin'}:{os.environ['PATH']}"}

    def _munge(self) -> None:
        key = self.place / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = {name: self.place / f"munge.{name}" for name in ("socket", "pid", "log", "seed")}
        socket = files.pop("socket")
        named = [f"--{name}-file={file}" for name, file in (files | {"key": key}).items()]
        self._daemon("munged", "--foreground", "--force", f"--socket={socket}", *named)
        waited_for(socket.exists, 20, self.logs)

    def _daemon(self, name: str, *arguments: str) -> None:
        with (self.place / f"{name}.output").open("w") as output:
            self._daemons.append(
                subprocess.Popen(
                    [_program(name), *arguments],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    cwd=self.place,
                )
            )

    def run(self, *command: str, check: bool = True) -> str:
        ran = ended(*command, status=None, env=users_environment() | self.environment)
        assert not check or ran.returncode == 0, f"{command}: {ran.stderr}\n{self.logs()}"
        return ran.stdout

    def logs(self) -> str:
        files = sorted([*self.place.glob("*.log"), *self.place.glob("*.output")])
        return "\n".join(f"--- {f.name}\n{f.read_text()[-2000:]}" for f in files)

    def stop(self) -> None:
        self.run("scancel", "--user", getpass.getuser(), check=False)
        with contextlib.suppress(AssertionError):
            waited_for(lambda: not self.run("squeue", "-h", check=False).strip(), 40)
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in reversed(self._daemons):
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(20)
            daemon.kill()
