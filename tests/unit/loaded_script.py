"""A script of the project as a module, for its `main`."""

import importlib.util
from pathlib import Path
from types import ModuleType


def loaded(name: str) -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_script", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
