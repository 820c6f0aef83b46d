"""What the commands of scripts/ print in an unusual environment, or for unusual arguments."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def ran(name, *arguments, **environment):
    """The script `name`, run to its end."""
    return subprocess.run(
        [sys.executable, SCRIPTS / name, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        errors="replace",
    )


@pytest.mark.parametrize(
    "name, words",
    [
        ("status.py", "--configfile my.yaml"),
        ("to_onnx.py", "Convert a trained model to ONNX"),
        ("generate_config.py", "Write config.yaml"),
    ],
)
def test_help_needs_no_docstrings(name, words):
    done = ran(name, "--help", PYTHONOPTIMIZE="2")
    assert done.returncode == 0 and words in done.stdout and not done.stderr


def test_what_the_configuration_is_generated_from_is_not_left_out():
    schema = SCRIPTS.parent / "schemas" / "config.schema.yaml"
    written = schema.stat().st_mtime_ns
    done = ran("generate_config.py", PYTHONOPTIMIZE="2")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert ran("generate_config.py", "--zzz").returncode == 2
    assert ran("generate_config.py", "--help").returncode == 0
    assert schema.stat().st_mtime_ns == written
