"""Which code a script runs, by meaning: a digest of each module's syntax tree.

Snakemake reruns a rule when its script's date changes, and knows nothing of the modules that
the script imports. The rules therefore hold these digests as a param: an edit of what the code
does reruns what runs it; comments, docstrings, formatting, dates and places rerun nothing.
"""

import ast
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from mlm.foundations.digests import FileMemory
from mlm.foundations.errors import MlmError

#: The directory of the library and of the adapters of rules.
SCRIPTS = Path(__file__).parents[2]
#: The adapters of a training: what rule `pretrain` runs, alone or as one of several processes.
TRAINING_JOBS = ("pretrain",)
_PACKAGE = "mlm"
_NAMED = re.compile(r"^mlm(?:\.\w+)+$")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
            if not node.body:
                node.body.append(ast.Pass())
    return tree


class _WithoutFStrings(ast.NodeTransformer):
    """Writes an f-string as the tuple of its parts.

    Python 3.12 and later write f-strings again with other quotes than 3.11, and some
    divide a text at `{{` or add an empty one.
    """

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Tuple:
        self.generic_visit(node)
        parts = [ast.Constant("")]
        for part in node.values:
            if not isinstance(part, ast.Constant):
                parts += [part, ast.Constant("")]
            else:
                parts[-1] = ast.Constant(parts[-1].value + part.value)
        return ast.Tuple(parts, ast.Load())

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.Tuple:
        self.generic_visit(node)
        form = node.format_spec or ast.Constant(None)
        return ast.Tuple([node.value, ast.Constant(node.conversion), form], ast.Load())


def _imported(tree: ast.Module) -> list[str]:
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
    return sorted(name for name in names if name.split(".")[0] == _PACKAGE)


def _meaning(file: Path) -> list:
    """A digest of what the Python file does, and the library modules that it imports.

    The digest is taken of the tree written out again, which is the same in all versions of Python
    that the workflow is for; its dump is not.
    """
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    except (SyntaxError, ValueError) as error:
        raise MlmError(f"{file} is not valid Python: {error}. Correct it and run again") from None
    imported = _imported(tree)
    text = ast.unparse(_WithoutFStrings().visit(_without_docstrings(tree)))
    return [hashlib.sha256(text.encode("utf-8")).hexdigest()[:12], imported]


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
    """`job_digests` of a training: the code that its training.json records."""
    return job_digests(TRAINING_JOBS, memory)
