"""Where the configuration comes from: files and the command line, and which values a user set.

Snakemake merges config.yaml, which contains defaults, the files of `--configfile` and
`--config` before the workflow sees any of it. Commands without Snakemake do the same here.
"""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from mlm.config.configuration import Configuration
from mlm.config.pretraining import LENGTHS, with_its_length_alone
from mlm.config.problems import DEEPEST, canonical, depth_of, merged
from mlm.config.resolution import Settings, resolve
from mlm.foundations.errors import MlmError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Snakemake runs the Python in a file with this key.
_PROGRAM = "__use_yte__"
#: Values in a file with every alias written out; for more, readers take minutes or for ever.
_MOST_VALUES = 100_000


def read_settings(
    defaults: Path, overlays: Iterable[str], assignments: Iterable[str] = ()
) -> Settings:
    """The resolved configuration of config.yaml, at `defaults`, with the files `overlays` merged
    into it one after the other, and after them `assignments`, each KEY=VALUE.

    As `--configfile` and `--config` of Snakemake. Raises MlmError for a file that cannot be read,
    and ConfigError with every problem found.
    """
    overlays = list(overlays)
    overlay: dict[str, Any] = {}
    for file in overlays:
        overlay = merged(overlay, read_overlay(Path(file)))
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise MlmError(f"--config {assignment}: expected KEY=VALUE")
        overlay = merged(overlay, {key: _read_yaml(value, f"--config {assignment}")})
    whole = merged(read_overlay(defaults), overlay)
    return settings_from(whole, overlay, [defaults, *overlays])


def read_settings_in(
    directory: str, defaults: Path, overlays: Iterable[str], assignments: Iterable[str]
) -> Settings:
    """As `read_settings`, with `directory` made the working directory.

    Paths in the files are relative to it, as with Snakemake's `--directory`; the files' own paths
    are not. Raises MlmError also if there is no such directory.
    """
    files = [os.path.abspath(file) if directory != "." else file for file in overlays]
    if not os.path.isdir(directory):
        raise MlmError(f"--directory {directory}: there is no such directory")
    os.chdir(directory)
    return read_settings(defaults, files, assignments)


def settings_from(
    config: Mapping[str, Any], overlay: Mapping[str, Any], files: Iterable[str | Path]
) -> Settings:
    """The resolved configuration of the merged `config`.

    `overlay` is the part from `--configfile` and `--config`; `files` are all that were merged.
    Raises ConfigError with every problem, and MlmError for a value that contains itself or
    is too deep or too large.
    """
    problems = repeated_keys(files)
    given, undecided = set_by_user(config, overlay)
    return resolve(given, problems + undecided)


def read_overlay(file: Path) -> dict[str, Any]:
    """The content of a configuration file; MlmError with file, line and remedy if it has none."""
    where = f"--configfile {file}"
    if os.path.islink(file) and not os.path.exists(file):
        raise MlmError(
            f"{where}: links to {os.readlink(file)}, which does not exist; restore it, or name "
            "another file"
        )
    if os.path.exists(file) and not os.path.isfile(file):
        raise MlmError(f"{where}: is not a regular file; write the configuration to a file")
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MlmError(f"{where}: there is no such file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        encoding = "utf-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
        raise MlmError(
            f"{where}, line {line}: not UTF-8 (byte 0x{error.object[error.start]:02x}). Convert "
            f"it, for instance: iconv -f {encoding} -t utf-8 {file} > utf8.yaml"
        ) from None
    except OSError as error:
        raise MlmError(f"{where}: cannot be read ({error.strerror})") from None
    try:
        content = json.loads(text)
    except ValueError:
        content = _read_yaml(text, where)
    except RecursionError:
        raise _too_deep(where) from None
    if depth_of(content) > DEEPEST:
        raise _too_deep(where)
    if not isinstance(content, dict):
        raise MlmError(f"{where}: holds no keys; expected sections as in config.yaml")
    if _PROGRAM in content:
        raise MlmError(
            f"{where}: is a program ({_PROGRAM}), which only Snakemake runs. Give its result"
        )
    return content


def _read_yaml(text: str, where: str) -> Any:
    try:
        list(_repeated(_composed(text, where), where))
        return yaml.load(text, _LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{where}, line {mark.line + 1}" if mark else where
        line = text.splitlines()[mark.line : mark.line + 1] if mark else []
        if "\t" in "".join(line) and "token" in str(error.problem):
            remedy = "YAML is indented with spaces; replace the tab"
        elif "single document" in str(error.context):
            remedy = "a second document begins there (---); put each into a file of its own"
        elif "tag" in str(error.problem):
            remedy = f"{error.problem}; write the value itself, without a tag"
        elif "unhashable" in str(error.problem):
            remedy = "a key must be text, found a list or a section; write a name"
        elif "merging" in str(error.context) or "merging" in str(error.problem):
            remedy = "<< merges a section, found another value; write a section or its alias"
        else:
            remedy = f"not valid YAML: {error.problem}"
        raise MlmError(f"{where}: {remedy}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise MlmError(f"{where}: not valid YAML ({' '.join(str(error).split())})") from None


def _composed(text: str, where: str) -> yaml.Node | None:
    """The nodes of a YAML document. MlmError if it is nested too deeply for the composer, which
    would end the process.
    """
    depth = 0
    for event in yaml.parse(text, _LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _too_deep(f"{where}, line {event.start_mark.line + 1}")
    return yaml.compose(text, _LOADER)


def _too_deep(where: str) -> MlmError:
    return MlmError(
        f"{where}: nested too deeply; expected at most {DEEPEST} sections and lists inside one "
        "another, as in config.yaml"
    )


def set_by_user(
    config: Mapping[str, Any], overlay: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The part of the merged `config` that a user set, and what cannot be decided, in words.

    `overlay` is what came from `--configfile` and `--config`: all of it is set. Of the rest, from
    config.yaml, the values that differ from the defaults are. Runs that the overlay names are
    trained alone, without those of config.yaml.
    """
    whole, over = canonical(config, Configuration), canonical(overlay, Configuration)
    defaults = Configuration().model_dump()
    edited = _differing(whole, defaults)
    _settle_length(edited, whole, over)
    given = merged(edited, over)
    # The overlay's own values, but merged with what config.yaml says of the same run.
    named = over.get("runs") if isinstance(over.get("runs"), dict) else None
    runs = whole.get("runs")
    if isinstance(runs, dict):
        given["runs"] = {n: r for n, r in runs.items() if not named or n in named}
    return given, _undecided(whole, over, defaults)


def _settle_length(edited: dict, whole: dict, over: dict) -> None:
    """The length of the training in `over`, if any, displaces the one that config.yaml has.

    Two set in config.yaml are both kept, even if one is the default.
    """
    there, laid = whole.get("pretraining"), over.get("pretraining", {})
    if not (isinstance(there, dict) and isinstance(laid, dict)):
        return
    standing = {k: there[k] for k in LENGTHS if there.get(k) is not None and k not in laid}
    alone = with_its_length_alone(laid, standing)
    if alone != laid:
        over["pretraining"] = alone
    elif len(standing) > 1:
        edited["pretraining"] = edited.get("pretraining", {}) | standing


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


def _undecided(whole: dict, over: dict, defaults: dict) -> list[str]:
    """Defaults of `model.config` beside an architecture that config.yaml itself names.

    Whoever edits config.yaml may mean them, or may have left them standing.
    """
    model, laid = whole.get("model"), over.get("model", {})
    if not (isinstance(model, dict) and isinstance(laid, dict)):
        return []
    hub, laid_hub = model.get("hub"), laid.get("hub")
    named = [key for key in ("config_file",) if model.get(key) and key not in laid]
    if isinstance(hub, dict) and hub.get("id") and "id" not in (laid_hub or {}):
        named.append("hub.id")
    fields, laid_fields = model.get("config"), laid.get("config")
    if not named or not isinstance(fields, dict):
        return []
    standing = [
        f"{key}: {value}"
        for key, value in fields.items()
        if key not in (laid_fields or {}) and value == defaults["model"]["config"].get(key)
    ]
    if not standing:
        return []
    return [
        f"model.config: beside model.{named[0]}, which brings its own sizes, config.yaml still has "
        f"the defaults {', '.join(standing)}. Delete these lines there; what you do want to "
        "override goes into a file of your own (--configfile)"
    ]


def repeated_keys(files: Iterable[str | Path]) -> list[str]:
    """A line for each key that is set twice in one section of a configuration file.

    YAML readers take the last one and say nothing. Files that cannot be read are skipped, since
    Snakemake reported them before. Raises MlmError for a value that contains itself
    or is too deep or too large.
    """
    problems = []
    for file in dict.fromkeys(map(str, files)):
        if not os.path.isfile(file):
            continue
        try:
            root = _composed(Path(file).read_text(encoding="utf-8"), f"--configfile {file}")
        except (OSError, ValueError, yaml.YAMLError):
            continue
        problems += [
            f"{path}: is set twice in {file}, {_lines(first, second)}; keep one"
            for path, first, second in _repeated(root, f"--configfile {file}")
        ]
    return problems


def _lines(first: int, second: int) -> str:
    return f"in lines {first} and {second}" if first != second else f"both in line {first}"


def _repeated(
    node: yaml.Node | None,
    where: str,
    path: str = "",
    above: tuple = (),
    visited: Iterator[int] | None = None,
) -> Iterator[tuple[str, int, int]]:
    visited = itertools.count() if visited is None else visited
    if node in above:
        raise MlmError(
            f"{where}, line {node.start_mark.line + 1}: the value of {path} contains itself, by "
            "an alias (*); write it out without the alias"
        )
    if next(visited) >= _MOST_VALUES:
        raise MlmError(
            f"{where}: holds more than {_MOST_VALUES:,} values with its aliases (*) written out; "
            "remove aliases of aliases"
        )
    above = (*above, node)
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _repeated(item, where, f"{path}[{number}]", above, visited)
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
        yield from _repeated(value, where, here, above, visited)
