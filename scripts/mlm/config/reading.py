"""The configuration as Snakemake would hand it to the workflow, for commands without Snakemake."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from mlm.config.problems import merged
from mlm.config.resolution import Settings, resolve
from mlm.config.sources import repeated_keys, set_by_user
from mlm.foundations.errors import MlmError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Has Snakemake run the Python in the file.
_PROGRAM = "__use_yte__"


def read_settings(
    defaults: Path, overlays: Iterable[str], assignments: Iterable[str] = ()
) -> Settings:
    """The resolved configuration of config.yaml, at `defaults`, with the files `overlays` laid over
    it one after the other, and after them `assignments`, each KEY=VALUE.

    As `--configfile` and `--config` of Snakemake have it. Raises MlmError for a file that cannot be
    read, and ConfigError with every problem of what stands there.
    """
    overlays = list(overlays)
    overlay: dict[str, Any] = {}
    for file in overlays:
        overlay = merged(overlay, _read(Path(file)))
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise MlmError(f"--config {assignment}: expected KEY=VALUE")
        overlay = merged(overlay, {key: yaml.load(value, _LOADER)})
    given, undecided = set_by_user(merged(_read(defaults), overlay), overlay)
    return resolve(given, repeated_keys([defaults, *overlays]) + undecided)


def read_settings_in(
    directory: str, defaults: Path, overlays: Iterable[str], assignments: Iterable[str]
) -> Settings:
    """As `read_settings`, with `directory` made the working directory.

    What stands in the files is relative to it, as Snakemake's `--directory` has it; the files'
    own paths are not. Raises MlmError also where there is no such directory.
    """
    files = [os.path.abspath(file) if directory != "." else file for file in overlays]
    if not os.path.isdir(directory):
        raise MlmError(f"--directory {directory}: there is no such directory")
    os.chdir(directory)
    return read_settings(defaults, files, assignments)


def _read(file: Path) -> dict[str, Any]:
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), _LOADER)
    except FileNotFoundError:
        raise MlmError(f"--configfile {file}: there is no such file") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise MlmError(f"--configfile {file}: cannot be read as YAML ({reason})") from None
    if not isinstance(content, dict):
        raise MlmError(f"--configfile {file}: holds no keys; expected sections as in config.yaml")
    if _PROGRAM in content:
        raise MlmError(
            f"--configfile {file}: is a program ({_PROGRAM}), which only Snakemake runs. Give what "
            "it comes to"
        )
    return content
