"""Which library modules a script runs, found from the import statements themselves.

Snakemake reruns a rule when its script changes, but knows nothing of the modules that the
script imports. The rules therefore name them as inputs, and this module finds them.
"""

import ast
from functools import cache
from pathlib import Path

_PACKAGE = "mlm"


@cache
def _imported_modules(file: Path) -> frozenset[str]:
    """Dotted names of the library's modules that `file` imports anywhere in its text."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), filename=str(file))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(n for n in found if n.split(".")[0] == _PACKAGE)


def code_files(scripts: Path, script: str) -> list[Path]:
    """The library files that `scripts/{script}.py` imports, directly or not, sorted.

    Imports inside functions count: they run as well. The packages' `__init__` files are
    left out, since they hold no code.
    """
    waiting, seen = [scripts / f"{script}.py"], set()
    while waiting:
        for name in _imported_modules(waiting.pop()):
            parts = name.split(".")
            file = scripts.joinpath(*parts).with_suffix(".py")
            if file.is_file() and file not in seen:
                seen.add(file)
                waiting.append(file)
    return sorted(seen)
