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
        fields["values"] = [
            part
            for is_text, parts in groupby(node.values, lambda v: isinstance(v, ast.Constant))
            for part in (["".join(text.value for text in parts)] if is_text else parts)
            if part
        ]
    return [type(node).__name__, {name: _plain(value) for name, value in fields.items()}]


def imported_names(tree: ast.Module) -> list[str]:
    """Dotted names of the library's modules that are imported anywhere, also in functions.

    Of `from mlm.a import b` both `mlm.a` and `mlm.a.b`, which may be a module. A module that runs
    in a process of its own (`python -m mlm.a.b`) is named in a text.
    """
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(_NAMED.findall(node.value))
    return sorted(name for name in names if name.split(".")[0] == "mlm")


def _meaning(file: Path) -> list:
    """A digest of what the Python file does, and the library modules that it imports."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    except (SyntaxError, ValueError) as error:
        raise MlmError(f"{file} is not valid Python: {error}. Correct it and run again") from None
    # `value_sha256` writes lines, which takes ten times as long.
    meaning = json.dumps(_plain(tree), sort_keys=True).encode()
    return [hashlib.sha256(meaning).hexdigest()[:12], imported_names(tree)]


def code_digests(
    scripts: Path, roots: Iterable[str], memory: FileMemory | None = None
) -> dict[str, str]:
    """Digests of 12 hexadecimal digits of the modules `roots` and of all that they import, by name.

    `scripts` holds the package `mlm`; `roots` are dotted names: "jobs.pretrain" is
    scripts/jobs/pretrain.py. `memory` has what is known of files that stayed the same.
    """
    memory = memory or FileMemory(None)
    waiting, found = list(roots), {}
    while waiting:
        name = waiting.pop()
        file = scripts.joinpath(*name.split(".")).with_suffix(".py")
        if name in found or not file.is_file():
            continue
        found[name], imported = memory.value("what it does", file, _meaning)
        waiting += imported
    return dict(sorted(found.items()))


def job_digests(jobs: Iterable[str], memory: FileMemory | None = None) -> dict[str, str]:
    """Digests of what the adapters `scripts/jobs/{job}.py` run, by module; see `code_digests`."""
    return code_digests(SCRIPTS, ["jobs.job_adapter", *(f"jobs.{job}" for job in jobs)], memory)


def training_code(memory: FileMemory | None = None) -> dict[str, str]:
    """`job_digests` of rule `pretrain`: the code that its training.json records."""
    return job_digests(("pretrain",), memory)
