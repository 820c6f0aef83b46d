"""Rules hold digests of the code that their scripts run: its meaning, and all of it."""

import ast
import importlib
import os
import sys
import traceback
from pathlib import Path

import pytest

from mlm.foundations.code_digests import code_digests, job_digests
from mlm.foundations.errors import MlmError

SCRIPTS = Path(__file__).parents[2] / "scripts"
#: They use nothing of the library, and no rule runs them.
STANDING_ALONE = {"job_adapter"}
RULE_SCRIPTS = sorted({p.stem for p in (SCRIPTS / "jobs").glob("*.py")} - STANDING_ALONE)
#: Their imports take little of the time of the default run.
IN_DEFAULT_RUN = {"corpus", "tokenizer", "shard", "report"}


@pytest.fixture
def library(tmp_path):
    """A library of given modules; `digests()` looks at it anew."""
    (tmp_path / "mlm").mkdir()

    def digests(**modules):
        for name, text in modules.items():
            place = tmp_path / ("s.py" if name == "s" else f"mlm/{name}.py")
            place.write_text(text)
        return code_digests(tmp_path, ["s"])

    return digests


def test_digests_follow_imports_through_modules(library):
    found = library(
        s="def main():\n    from mlm.a import f\n",
        a="import json\nfrom mlm import b\n",
        b="X = 1\n",
        unused="",
    )
    assert list(found) == ["mlm.a", "mlm.b", "s"]


def test_every_python_gives_the_same_digests(library):
    """Each divides the text of an f-string in its own way."""
    text = "def f(x):\n    return f\"{', '.join(x)} {x!r:>{len(x)}} {{it's}}\"\n"
    text += "def g(x):\n    return f\"{{', '.join(x)}}\\n{x:{x}}a{{\" f'{{b{x[0]}'\n"
    assert library(s=text) == {"s": "2254f98def65"}


def test_a_module_that_runs_in_a_process_of_its_own_counts(library):
    assert "mlm.worker" in library(s='RUN = [python, "-m", "mlm.worker"]\n', worker="X = 1\n")


CODE = '"""What it is."""\n\ndef f(x):\n    """Twice x."""\n    return 2 * x\n'
SAME = {
    "comment": CODE + "# nothing\n",
    "docstring": CODE.replace("Twice x.", "x, twice."),
    "no docstring": CODE.replace('    """Twice x."""\n', ""),
    "formatting": CODE.replace("2 * x", "(\n        2*x\n    )"),
    "quotes": CODE.replace('"""', "'''"),
}
OTHER = {
    "constant": CODE.replace("2 * x", "3 * x"),
    "name": CODE.replace("f(x)", "g(x)"),
    "default": CODE.replace("f(x)", "f(x=1)"),
    "statement": CODE + "f(1)\n",
}


@pytest.mark.parametrize("edit", SAME)
def test_an_edit_without_meaning_is_no_change(library, edit):
    assert library(s="import mlm.a", a=CODE) == library(a=SAME[edit])


@pytest.mark.parametrize("edit", OTHER)
def test_an_edit_of_meaning_changes_the_digest_of_its_module_alone(library, edit):
    before, after = library(s="import mlm.a", a=CODE), library(a=OTHER[edit])
    assert {name for name in before if before[name] != after[name]} == {"mlm.a"}


def test_code_that_is_no_python_is_named(library):
    with pytest.raises(MlmError, match=r"a\.py is not valid Python"):
        library(s="import mlm.a", a="def f(:\n")


def in_a_fork(function, *arguments) -> int:
    """Call it in a copy of this process, where packages are imported already; the exit status."""
    child = os.fork()
    if child == 0:
        try:
            function(*arguments)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(s, marks=[] if s in IN_DEFAULT_RUN else [pytest.mark.slow])
        for s in RULE_SCRIPTS
    ],
)
def test_what_python_imports_has_a_digest(tmp_path, script):
    """Runs each script's imports in a fork without the library and compares the loaded modules."""
    known = set(job_digests([script]))
    assert len(known) > 1, "a rule without library code would never be rerun by an edit of it"
    tree = ast.parse((SCRIPTS / "jobs" / f"{script}.py").read_text(encoding="utf-8"))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    wanted = [node.module for node in imports if node.module.split(".")[0] == "mlm"]

    def loaded_by_them(file):
        for name in [n for n in sys.modules if n.split(".")[0] == "mlm"]:
            del sys.modules[name]
        for name in wanted:
            importlib.import_module(name)
        modules = [m for n, m in sys.modules.items() if n.startswith("mlm.")]
        names = [m.__name__ for m in modules if not m.__file__.endswith("__init__.py")]
        file.write_text("\n".join(names))

    assert in_a_fork(loaded_by_them, tmp_path / "loaded") == 0
    loaded = set((tmp_path / "loaded").read_text().split())
    assert loaded and loaded <= known


def test_packages_hold_no_code_in_their_init_files():
    """Digests leave them out, so there must be nothing in them to run."""
    for init in (SCRIPTS / "mlm").rglob("__init__.py"):
        body = ast.parse(init.read_text()).body
        assert [type(n) for n in body] in ([ast.Expr], []), init
