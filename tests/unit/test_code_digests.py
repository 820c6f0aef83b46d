import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

from mlm.foundations.code_digests import code_digests, is_of_another_rule, job_digests

SCRIPTS = Path(__file__).parents[2] / "scripts"
RULES = "".join(f.read_text(encoding="utf-8") for f in (SCRIPTS.parent / "rules").glob("*.smk"))
#: The adapter and the name of each rule, as its params name them.
ADAPTERS = {rule: script for script, rule in re.findall(r'code_of\("(\w+)", "(\w+)"\)', RULES)}
#: Their imports take little of the time of the default run.
IN_DEFAULT_RUN = {"corpus", "tokenizer", "shard", "report"}


@pytest.fixture
def library(tmp_path):
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
    text = "def f(x):\n    return f\"{', '.join(x)} {x!r:>{len(x)}} {{it's}}\"\n"
    text += "def g(x):\n    return f\"{{', '.join(x)}}\\n{x:{x}}a{{\" f'{{b{x[0]}'\n"
    assert library(s=text) == {"s": "bdc78963061e"}


def test_a_module_that_runs_in_a_process_of_its_own_counts(library):
    assert "mlm.worker" in library(s='RUN = [python, "-m", "mlm.worker"]\n', worker="X = 1\n")


CODE = '"""What it is."""\n\ndef f(x):\n    """Twice x."""\n    return 2 * x\n'
#: Edits, and whether they mean anything.
EDITS = {
    "comment": (CODE + "# nothing\n", False),
    "docstring": (CODE.replace("Twice x.", "x, twice."), False),
    "no docstring": (CODE.replace('    """Twice x."""\n', ""), False),
    "formatting": (CODE.replace("2 * x", "(\n        2*x\n    )"), False),
    "quotes": (CODE.replace('"""', "'''"), False),
    "constant": (CODE.replace("2 * x", "3 * x"), True),
    "name": (CODE.replace("f(x)", "g(x)"), True),
    "default": (CODE.replace("f(x)", "f(x=1)"), True),
    "statement": (CODE + "f(1)\n", True),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_meaning_changes_the_digest_of_its_module_alone(library, edit):
    text, means_anything = EDITS[edit]
    before, after = library(s="import mlm.a", a=CODE), library(a=text)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == ({"mlm.a"} if means_anything else set())


def own_modules():
    return {name: m for name, m in sys.modules.items() if name.split(".")[0] == "mlm"}


def loaded_by(names):
    """The library's modules that the imports of `names` load, as if none was loaded before."""
    before = own_modules()
    try:
        for name in before:
            del sys.modules[name]
        for name in names:
            importlib.import_module(name)
        loaded = own_modules().values()
        return {m.__name__ for m in loaded if not m.__file__.endswith("__init__.py")}
    finally:
        for name in own_modules():
            del sys.modules[name]
        sys.modules.update(before)


@pytest.mark.parametrize(
    "rule",
    [pytest.param(r, marks=[] if r in IN_DEFAULT_RUN else [pytest.mark.slow]) for r in ADAPTERS],
)
def test_what_python_imports_has_a_digest(rule):
    script = ADAPTERS[rule]
    tree = ast.parse((SCRIPTS / "jobs" / f"{script}.py").read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not is_of_another_rule(node, rule)]
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    wanted = [node.module for node in imports if node.module.split(".")[0] == "mlm"]
    loaded = loaded_by(wanted)
    assert loaded and loaded <= job_digests(script, rule).keys()


def test_a_rule_depends_on_no_function_of_an_adapter_that_other_rules_run():
    masked, manifest = (job_digests("samples", rule) for rule in ("masked_samples", "manifest"))
    assert "mlm.samples.preview" in masked and "mlm.samples.preview" not in manifest
    assert masked["jobs.samples"] != manifest["jobs.samples"]


def test_every_adapter_has_a_function_for_each_of_its_rules():
    named = re.findall(r"^rule (\w+):\n(?:(?:(?!^rule ).*\n)*?    script:)", RULES, re.MULTILINE)
    named += re.findall(r"^ *use rule \w+ as (\w+) with", RULES, re.MULTILINE)
    assert set(named) == ADAPTERS.keys(), "each depends on its own code"
    scripts = {path.stem for path in (SCRIPTS / "jobs").glob("*.py")} - {"job_adapter"}
    assert scripts == set(ADAPTERS.values())
    for rule, script in ADAPTERS.items():
        text = (SCRIPTS / "jobs" / f"{script}.py").read_text(encoding="utf-8")
        named = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
        run = [
            node for node in named if "run_as_job" in "".join(map(ast.unparse, node.decorator_list))
        ]
        assert len([node for node in run if not is_of_another_rule(node, rule)]) == 1, rule
