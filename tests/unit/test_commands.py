import json
import os
import sys
from pathlib import Path

import pytest
from tests.conftest import ended

SCRIPTS = Path(__file__).parents[2] / "scripts"


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
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(SCRIPTS)}
    done = ended(sys.executable, "-c", program, status=1, encoding=encoding, env=environment)
    assert done.stderr == "x: \\u2026\n"
    *answer, last = done.stdout.splitlines()
    assert json.loads("".join(answer)) == ["\u010d\u202e", "\xe9"] and last == "\\u010d"
