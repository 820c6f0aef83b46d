"""What the commands of scripts/ print in an unusual environment, or for unusual arguments."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loaded_script import loaded

from mlm.config.pretraining import parsed
from mlm.foundations.command import status_of

SCRIPTS = Path(__file__).parents[2] / "scripts"
LONG = "9" * 5000


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
        ("ask.py", "--replay"),
        ("status.py", "--configfile my.yaml"),
        ("to_onnx.py", "Convert a trained model to ONNX"),
        ("generate_config.py", "Write docs/configuration.md"),
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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_lacks_is_printed_as_escapes(encoding):
    program = """
from mlm.foundations.command import print_json, run_command
from mlm.foundations.errors import MlmError
def main(_):
    print_json(["\u010d\u202e", "\xe9"])
    print("\u010d")
    raise MlmError("\u2026")
run_command("x", main)"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
    )
    assert done.stderr == b"x: \\u2026\n"
    *answer, last = done.stdout.decode(encoding).splitlines()
    assert json.loads("".join(answer)) == ["\u010d\u202e", "\xe9"] and last == "\\u010d"


def test_status_reads_what_snakemake_prints_in_any_encoding(tmp_path):
    done = ran("status.py", "\u010d\u2026", "--directory", tmp_path, PYTHONIOENCODING="ascii")
    assert "No rule to produce \\u010d\\u2026" in done.stderr
    assert "Traceback" not in done.stderr and "Logging error" not in done.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["x", "--most", LONG], "left out) … 999"),
        (["x", "--most", LONG], "expected an integer, 1 or more, of at most 18 digits"),
        (["x", f"--zzz{LONG}"], "characters left out) … 999"),
    ],
)
def test_a_long_argument_is_shortened(capsys, arguments, words):
    with pytest.raises(SystemExit):
        loaded("ask").main(arguments)
    said = capsys.readouterr().err.splitlines()[-1]
    assert words in said and len(said) < 1000 and "_positive" not in said


def test_a_number_of_a_document_has_few_digits():
    with pytest.raises(ValueError, match="is not the number of a document"):
        parsed(f"document:{LONG}")


@pytest.mark.parametrize("name", ["ask", "fill"])
def test_an_empty_name_of_a_run_is_unknown(capsys, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert status_of("x", loaded(name).main, ["A [MASK].", "--run", ""]) == 1
    assert "o run is called ''; there are: base" in capsys.readouterr().err
