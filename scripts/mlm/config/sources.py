"""What Snakemake read the configuration from: which values a user set, and keys that repeat.

Snakemake merges config.yaml, in which every default stands, the files of `--configfile` and
`--config` before the workflow sees any of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from mlm.config.configuration import Configuration
from mlm.config.pretraining import LENGTHS, with_its_length_alone
from mlm.config.problems import canonical, merged

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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

    Two that stand in config.yaml are both set, also where one is the default.
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
    """A line for each key that stands twice in one section of a configuration file.

    YAML readers take the last one and say nothing. Files that cannot be read are passed over:
    Snakemake has told of them before.
    """
    problems = []
    for file in dict.fromkeys(map(str, files)):
        try:
            root = yaml.compose(Path(file).read_text(encoding="utf-8"), Loader=_LOADER)
        except (OSError, ValueError, yaml.YAMLError):
            continue
        problems += [
            f"{path}: stands twice in {file}, {_lines(first, second)}; keep one"
            for path, first, second in _repeated(root, "")
        ]
    return problems


def _lines(first: int, second: int) -> str:
    return f"in lines {first} and {second}" if first != second else f"both in line {first}"


def _repeated(node: yaml.Node | None, path: str) -> Iterator[tuple[str, int, int]]:
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _repeated(item, f"{path}[{number}]")
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        here = f"{path}.{key.value}" if path else key.value
        line = key.start_mark.line + 1
        # `<<` takes in other mappings, and may stand as often as wanted.
        if key.value in lines and key.value != "<<":
            yield here, lines[key.value], line
        lines[key.value] = line
        yield from _repeated(value, here)
