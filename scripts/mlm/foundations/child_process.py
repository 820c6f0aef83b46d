"""Processes of the library's own: `python -m mlm.…`, wherever the parent found it."""

import os
from pathlib import Path

_LIBRARY = Path(__file__).parents[2]


def child_environment() -> dict[str, str]:
    """This process's environment, with the library before what PYTHONPATH names already."""
    places = [str(_LIBRARY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places)}
