"""The files that evaluation and fill-mask write: their version, rounding and reading."""

import os
from typing import Any

from mlm.atomic import read_json, write_json
from mlm.errors import MlmError

FORMAT_VERSION = 1

#: Significant digits of every number in the file. A loss of 10 nats is then right to 1e-6,
#: and what another processor or batch size changes in the last bits of float32 is not shown.
DIGITS = 7


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """`value`, JSON-like, with every float at `digits` significant digits."""
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def write_figures(path: str | os.PathLike, value: dict) -> None:
    """Write `value` with its format version, rounded, atomically."""
    write_json(path, rounded({"format_version": FORMAT_VERSION, **value}))


def read_evaluation(path: str | os.PathLike) -> dict:
    """What `evaluate` wrote to `path`.

    Raises MlmError where it is missing, no JSON object, or of another format version.
    """
    return _read(path, "an evaluation", ("run", "test", "baselines", "verdicts"))


def read_fill_mask(path: str | os.PathLike) -> dict:
    """What `fill_mask` wrote to `path`; raises MlmError as `read_evaluation` does."""
    return _read(path, "a fill-mask file", ("run", "prompts"))


def _read(path: str | os.PathLike, kind: str, keys: tuple[str, ...]) -> dict:
    advice = "Delete it and run again, so that it is remade."
    try:
        found = read_json(path)
    except FileNotFoundError:
        raise MlmError(f"{path}: is missing; {kind} is expected there.") from None
    except ValueError as error:
        raise MlmError(f"{path}: is no JSON ({error}). {advice}") from None
    if not isinstance(found, dict):
        raise MlmError(f"{path}: is not {kind} (no JSON object). {advice}")
    version = found.get("format_version")
    if version != FORMAT_VERSION:
        raise MlmError(
            f"{path}: format_version is {version}; {FORMAT_VERSION} is expected. It was made by "
            f"another version of the workflow. {advice}"
        )
    missing = [k for k in keys if k not in found]
    if missing:
        raise MlmError(f"{path}: is not {kind}: it lacks {', '.join(missing)}. {advice}")
    return found
