"""Which code a script runs, by meaning: a digest of each module's syntax tree.

Snakemake knows nothing of the modules that a script imports. The rules hold these digests as a
param: an edit of what the code does reruns what runs it, and comments, docstrings, formatting,
dates and places rerun nothing.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from mlm.foundations.digests import FileMemory
from mlm.foundations.errors import MlmError

#: The directory of the library and of the adapters of rules.
SCRIPTS = Path(__file__).parents[2]
_NAMED = re.compile(r"^mlm(?:\.\w+)+$")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _plain(node: Any) -> Any:
    """A syntax tree as JSON-like values, the same in all versions of Python that the workflow is
    for: without docstrings and fields that a version may leave out."""
    if isinstance(node, list):
        return list(map(_plain, node))
    if not isinstance(node, ast.AST):
        return ascii(node)  # which does not depend on the version of Unicode
    fields = {n: v for n in node._fields if (v := getattr(node, n, None)) not in (None, [])}
    if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    if isinstance(node, ast.JoinedStr):
        # Some divide the text of an f-string at `{{`, or add an empty one.
        fields["values"] = []
        for is_text, parts in groupby(node.values, lambda v: isinstance(v, ast.Constant)):
            if is_text:
                parts = filter(None, ["".join(str(ast.literal_eval(part)) for part in parts)])
            fields["values"] += parts
    return [type(node).__name__, {name: _plain(value) for name, value in fields.items()}]


def imported_names(tree: ast.Module) -> list[str]:
    """Return the dotted names of the library's modules that are imported anywhere, also in
    functions: of `from mlm.a import b` both `mlm.a` and `mlm.a.b`, which may be a module.

    A module that runs in a process of its own (`python -m mlm.a.b`) is named in a text.
    """
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.update({node.module}, (f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(_NAMED.findall(node.value))
    return sorted(name for name in names if name.startswith("mlm."))


def is_of_another_rule(node: ast.stmt, rule: str) -> bool:
    """Whether `node` is the function of an adapter for other rules: @run_as_job("shard")."""
    rules = [
        argument.value
        for call in getattr(node, "decorator_list", ())
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "run_as_job"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    ]
    return bool(rules) and rule not in rules


def _meaning(file: Path, rule: str = "") -> list:
    """A digest of what the Python file does for `rule`, and the library modules that it imports."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    except (SyntaxError, ValueError) as error:
        raise MlmError(f"{file} is not valid Python: {error}. Correct it and run again") from None
    if rule:
        tree.body = [node for node in tree.body if not is_of_another_rule(node, rule)]
    # `value_sha256` writes lines, which takes ten times as long.
    meaning = json.dumps(_plain(tree), sort_keys=True).encode()
    return [hashlib.sha256(meaning).hexdigest()[:12], imported_names(tree)]


#: By name and rule: the digest of a module and the modules that it imports; None: no module.
Known = dict[tuple[str, str], list | None]


def code_digests(
    scripts: Path,
    roots: Iterable[str],
    memory: FileMemory | None = None,
    rule: str = "",
    known: Known | None = None,
) -> dict[str, str]:
    """Return digests of 12 hexadecimal digits of the modules `roots` and all that they import.

    `scripts` holds the package `mlm`; `roots` are dotted names: "jobs.pretrain" is
    scripts/jobs/pretrain.py, of which the functions for other rules than `rule` are left out.
    `memory` has the digests of files that stayed the same; `known` saves later calls of this
    process the look at the files.
    """
    memory, known = memory or FileMemory(None), {} if known is None else known
    waiting, digests = list(roots), {}
    while waiting:
        name = waiting.pop()
        key = name, rule if name.startswith("jobs.") else ""
        if key not in known:
            file, compute = scripts / f"{name.replace('.', '/')}.py", partial(_meaning, rule=key[1])
            known[key] = (
                memory.value(f"what it does {key[1]}", file, compute) if file.is_file() else None
            )
        if name not in digests and (meaning := known[key]):
            digests[name], imported = meaning
            waiting += imported
    return dict(sorted(digests.items()))


def job_digests(
    script: str, rule: str, memory: FileMemory | None = None, known: Known | None = None
) -> dict[str, str]:
    """Return `code_digests` of what `rule` runs of the adapter `scripts/jobs/{script}.py`."""
    return code_digests(SCRIPTS, ["jobs.job_adapter", f"jobs.{script}"], memory, rule, known)


def training_code(memory: FileMemory | None = None) -> dict[str, str]:
    """Return `job_digests` of rule `pretrain`: the code that its training.json records."""
    return job_digests("pretrain", "pretrain", memory)
