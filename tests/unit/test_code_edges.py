"""Rules name the modules that their scripts run: what the imports say and what Python does."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mlm.code_edges import code_files

SCRIPTS = Path(__file__).parents[2] / "scripts"
RULE_SCRIPTS = sorted(p.stem for p in SCRIPTS.glob("*.py"))


def test_edges_follow_imports_through_modules(tmp_path):
    (tmp_path / "mlm").mkdir()
    (tmp_path / "s.py").write_text("def main():\n    from mlm.a import f\n")
    (tmp_path / "mlm" / "a.py").write_text("import json\nfrom mlm import b\n")
    (tmp_path / "mlm" / "b.py").write_text("")
    (tmp_path / "mlm" / "unused.py").write_text("")
    assert [p.name for p in code_files(tmp_path, "s")] == ["a.py", "b.py"]


def test_edges_survive_a_circle(tmp_path):
    (tmp_path / "mlm").mkdir()
    (tmp_path / "s.py").write_text("import mlm.a\n")
    (tmp_path / "mlm" / "a.py").write_text("import mlm.b\n")
    (tmp_path / "mlm" / "b.py").write_text("import mlm.a\n")
    assert [p.name for p in code_files(tmp_path, "s")] == ["a.py", "b.py"]


@pytest.mark.parametrize("script", RULE_SCRIPTS)
def test_what_python_imports_is_among_the_edges(script):
    """Runs each script's imports in a process of its own and compares the loaded modules."""
    edges = {str(p) for p in code_files(SCRIPTS, script)}
    assert edges, "a rule without library code would never be rerun by an edit of it"
    program = (
        "import ast, sys, importlib\n"
        f"sys.path.insert(0, {str(SCRIPTS)!r})\n"
        f"tree = ast.parse(open({str(SCRIPTS / (script + '.py'))!r}).read())\n"
        "for node in ast.walk(tree):\n"
        "    if isinstance(node, ast.ImportFrom) and node.module.split('.')[0] == 'mlm':\n"
        "        importlib.import_module(node.module)\n"
        "print('\\n'.join(m.__file__ for n, m in sys.modules.items() if n.startswith('mlm.')))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    loaded = {file for file in ran.stdout.split() if not file.endswith("__init__.py")}
    assert loaded and loaded <= edges


def test_packages_hold_no_code_in_their_init_files():
    """Edges leave them out, so there must be nothing in them to run."""
    for init in (SCRIPTS / "mlm").rglob("__init__.py"):
        body = ast.parse(init.read_text()).body
        assert [type(n) for n in body] in ([ast.Expr], []), init
