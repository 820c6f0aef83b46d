"""A job that fails says why, in the log as well, and ends with a status of its own."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlm.errors import MlmError
from mlm.job import run


def job(tmp_path):
    return SimpleNamespace(log=[str(tmp_path / "logs" / "x.log")], rule="x")


def failing(error):
    def main(_job):
        raise error

    return main


def message_of(error, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        run(failing(error), job(tmp_path))
    assert ended.value.code == 1
    shown = capsys.readouterr().err
    assert (tmp_path / "logs" / "x.log").read_text() == shown
    return shown


def test_a_problem_for_the_user_has_no_traceback(tmp_path, capsys):
    shown = message_of(MlmError("the file is empty"), tmp_path, capsys)
    assert "Error in rule x: the file is empty" in shown
    assert "Traceback" not in shown


def test_a_full_disk_is_told_in_words(tmp_path, capsys):
    error = OSError(errno.ENOSPC, "No space left on device", "results/a")
    shown = message_of(error, tmp_path, capsys)
    assert "No space left" in shown and "results/a" in shown and "Traceback" not in shown


def test_a_refused_write_is_told_in_words(tmp_path, capsys):
    shown = message_of(PermissionError(errno.EACCES, "Permission denied", "r"), tmp_path, capsys)
    assert "Not allowed" in shown and "Traceback" not in shown


def test_a_bug_keeps_its_traceback(tmp_path, capsys):
    assert "Traceback" in message_of(ZeroDivisionError("oops"), tmp_path, capsys)


def test_sigterm_ends_a_job_through_its_clean_up(tmp_path):
    """A process of its own, since the signal would end this one."""
    program = (
        "import os, signal, sys\n"
        "from types import SimpleNamespace\n"
        "from mlm.atomic import replacing\n"
        "from mlm.job import run\n"
        "def main(job):\n"
        "    with replacing('x.json') as temporary:\n"
        "        temporary.write_text('half')\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "run(main, SimpleNamespace(log=['x.log'], rule='x'))\n"
    )
    scripts = str(Path(__file__).parents[2] / "scripts")
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=os.environ | {"PYTHONPATH": scripts}
    )
    assert ran.returncode == 128 + signal.SIGTERM
    assert [p.name for p in tmp_path.iterdir()] == ["x.log"]
