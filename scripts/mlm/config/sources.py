"""Where the configuration comes from: files and the command line, and which values a user set.

Snakemake merges config.yaml, which contains defaults, the files of `--configfile` and
`--config` before the workflow sees any of it. Commands without Snakemake do the same here.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from mlm.config.configuration import Configuration
from mlm.config.pretraining import with_its_length_alone
from mlm.config.problems import canonical, merged
from mlm.config.resolution import Settings, resolve
from mlm.foundations.errors import MlmError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Snakemake runs the Python in a file with this key.
_PROGRAM = "__use_yte__"
#: Levels and values in a file with every alias written out. Beyond, readers run out of stack, or
#: take minutes or for ever.
_DEEPEST, _MOST_VALUES = 100, 100_000


def read_settings(
    defaults: Path, overlays: Iterable[str], assignments: Iterable[str] = (), directory: str = "."
) -> Settings:
    """The resolved configuration of config.yaml, at `defaults`, with the files `overlays` merged
    into it one after the other, and after them `assignments`, each KEY=VALUE.

    As `--configfile`, `--config` and `--directory` of Snakemake: `directory` becomes the working
    directory, to which paths in the files are relative, and their own are not. Raises MlmError for
    a file that cannot be read, and ConfigError with every problem found.
    """
    overlays = [os.path.abspath(file) if directory != "." else file for file in overlays]
    if not os.path.isdir(directory):
        raise MlmError(f"--directory {directory}: there is no such directory")
    os.chdir(directory)
    overlay: dict[str, Any] = {}
    for file in overlays:
        overlay = merged(overlay, read_overlay(Path(file)))
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise MlmError(f"--config {assignment}: expected KEY=VALUE")
        overlay = merged(overlay, {key: _read_yaml(value, f"--config {assignment}")[0]})
    whole = merged(read_overlay(defaults), overlay)
    return settings_from(whole, overlay, [defaults, *overlays])


def settings_from(
    config: Mapping[str, Any], overlay: Mapping[str, Any], files: Iterable[str | Path]
) -> Settings:
    """The resolved configuration of the merged `config`.

    `overlay` is the part from `--configfile` and `--config`; `files` are all that were merged.
    Raises ConfigError with every problem, and MlmError for a file that is too deep or too large.
    """
    return resolve(set_by_user(config, overlay), repeated_keys(files))


def read_overlay(file: Path) -> dict[str, Any]:
    """The content of a configuration file; MlmError with file, line and remedy if it has none."""
    where = f"--configfile {file}"
    if os.path.exists(file) and not os.path.isfile(file):
        raise MlmError(f"{where}: is not a regular file; write the configuration to a file")
    try:
        content, _ = _read_yaml(file.read_text(encoding="utf-8"), where)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise MlmError(
            f"{where}, line {line}: not UTF-8 (byte 0x{error.object[error.start]:02x}). Save it as "
            "UTF-8, in the editor or with iconv"
        ) from None
    except OSError as error:
        raise MlmError(f"{where}: cannot be read ({error.strerror})") from None
    if not isinstance(content, dict):
        raise MlmError(f"{where}: holds no keys; expected sections as in config.yaml")
    if _PROGRAM in content:
        raise MlmError(
            f"{where}: is a program ({_PROGRAM}), which only Snakemake runs. Give its result"
        )
    return content


def _read_yaml(text: str, where: str) -> tuple[Any, list[tuple[str, int, int]]]:
    """What a YAML text holds, and each key that one section sets twice, with both lines."""
    try:
        depth = 0
        # The composer would end the process.
        for event in yaml.parse(text, _LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise _too_large(where, event.start_mark)
        repeated = list(_repeated(yaml.compose(text, _LOADER), where))
        return yaml.load(text, _LOADER), repeated
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not valid YAML: {error.problem}"
        if "single document" in str(error.context):
            problem = "a second document begins there (---); put each into a file of its own"
        elif "\t" in "".join(text.splitlines()[mark.line : mark.line + 1]):
            problem = "YAML is indented with spaces; replace the tab"
        raise MlmError(f"{where}, line {mark.line + 1}: {problem}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise MlmError(f"{where}: not valid YAML ({' '.join(str(error).split())})") from None


def _too_large(where: str, mark: yaml.Mark) -> MlmError:
    return MlmError(
        f"{where}, line {mark.line + 1}: nested more than {_DEEPEST} levels deep, or more than "
        f"{_MOST_VALUES:,} values with aliases (*) written out; remove aliases of aliases, or to "
        "what contains them"
    )


def _repeated(
    node: yaml.Node | None,
    where: str,
    path: str = "",
    depth: int = 0,
    visited: Iterator[int] | None = None,
) -> Iterator[tuple[str, int, int]]:
    visited = itertools.count() if visited is None else visited
    if node and (depth > _DEEPEST or next(visited) >= _MOST_VALUES):
        raise _too_large(where, node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _repeated(item, where, f"{path}[{number}]", depth + 1, visited)
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        here = f"{path}.{key.value}" if path else key.value
        line = key.start_mark.line + 1
        # `<<` merges other mappings, and may be repeated.
        if key.value in lines and key.value != "<<":
            yield here, lines[key.value], line
        lines[key.value] = line
        yield from _repeated(value, where, here, depth + 1, visited)


def repeated_keys(files: Iterable[str | Path]) -> list[str]:
    """A line for each key that is set twice in one section of a configuration file.

    YAML readers take the last one and say nothing. Snakemake reported files that cannot be read.
    Raises MlmError for a value that contains itself or is too deep or too large.
    """
    problems = []
    for file in dict.fromkeys(map(str, files)):
        if not os.path.isfile(file):
            continue
        try:
            text = Path(file).read_text(encoding="utf-8")
            repeated = _read_yaml(text, f"--configfile {file}")[1]
        except (OSError, ValueError):
            continue
        problems += [
            f"{path}: is set twice in {file}, in lines {first} and {second}; keep one"
            for path, first, second in repeated
        ]
    return problems


def set_by_user(config: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the merged `config` that a user set.

    `overlay` is what came from `--configfile` and `--config`: all of it is set. Of the rest, from
    config.yaml, the values that differ from the defaults are. Runs that the overlay names are
    trained alone, without those of config.yaml.
    """
    whole, over = canonical(config, Configuration), canonical(overlay, Configuration)
    edited = _differing(whole, Configuration().model_dump())
    length = edited.get("pretraining")
    if isinstance(length, dict) and "pretraining" in over:
        over["pretraining"] = with_its_length_alone(over["pretraining"], length)
    given = merged(edited, over)
    # The overlay's own values, but merged with what config.yaml says of the same run.
    named = over.get("runs") if isinstance(over.get("runs"), dict) else None
    if isinstance(runs := whole.get("runs"), dict):
        given["runs"] = {n: r for n, r in runs.items() if not named or n in named}
    return given


def _differing(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in values.items():
        default = defaults.get(key)
        if isinstance(value, dict) and isinstance(default, dict):
            if inner := _differing(value, default):
                found[key] = inner
        elif key not in defaults or value != default or type(value) is not type(default):
            found[key] = value
    return found
