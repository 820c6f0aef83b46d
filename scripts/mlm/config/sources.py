"""Where the configuration comes from: config.yaml, overlays and the command line."""

import os
import sys
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from mlm.config.configuration import Configuration
from mlm.config.merging import as_plain, differing, merged
from mlm.config.resolution import resolve
from mlm.foundations.errors import MlmError


def read_settings(
    defaults: Path, overlays: Iterable[str], assignments: Iterable[str] = ()
) -> Configuration:
    """The resolved configuration of config.yaml, at `defaults`, `overlays` and `assignments`, each
    KEY=VALUE. Raises MlmError for a file that cannot be read, and ConfigError with every problem
    found."""
    assigned = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise MlmError(f"--config {assignment}: expected KEY=VALUE")
        assigned.append({key: _read_yaml(value, f"--config {assignment}")})
    return _laid_over(read_overlay(defaults), [*map(read_overlay, overlays), *assigned])


def settings_of(workflow: Any, config: Mapping[str, Any]) -> Configuration:
    """The resolved configuration of Snakemake's `workflow`; see `settings_from`. If another
    workflow uses it as a module, `config` is what that gives, over the defaults."""
    if workflow.modifier.skip_configfile:
        return resolve(config)
    if workflow.is_main_process:
        check_repeated(sys.argv[1:])
    return settings_from(workflow.config_settings, workflow.configfiles)


def settings_from(options: Any, files: Iterable[str | Path]) -> Configuration:
    """The resolved configuration of config.yaml, among `files`, and of `options`, Snakemake's own
    `ConfigSettings`: it would put steps of one file beside epochs of another. Raises MlmError and
    ConfigError as `read_settings` does."""
    overlays = [Path(file) for file in options.configfiles]
    base = [file for file in map(Path, files) if file not in overlays and file.is_file()]
    content = {} if options.replace_workflow_config or not base else read_overlay(base[0])
    return _laid_over(content, [*map(read_overlay, overlays), dict(options.config)])


def _laid_over(config_yaml: dict[str, Any], layers: Iterable[dict[str, Any]]) -> Configuration:
    overlay = reduce(merged, layers, {})
    return resolve(set_by_user(merged(config_yaml, overlay), overlay))


def check_repeated(arguments: Iterable[str]) -> None:
    """Raise MlmError if Snakemake's `arguments` have `--configfile` or `--config` twice: of each it
    would read the last alone."""
    names = [argument.partition("=")[0] for argument in arguments]
    for option, others, values in (
        ("--configfile", ("--configfiles",), "a.yaml b.yaml"),
        ("--config", ("-C",), "seed=1 'report={title: Mine}'"),
    ):
        count = sum(name in (option, *others) or name[:2] in others for name in names)
        if count > 1:
            raise MlmError(
                f"{option} is set {count} times, and Snakemake reads the last alone. Name all "
                f"after one: {option} {values}"
            )


def read_overlay(file: str | Path) -> dict[str, Any]:
    """The content of a configuration file; MlmError with file, line and remedy if it has none."""
    where = f"--configfile {file}"
    if os.path.exists(file) and not os.path.isfile(file):
        raise MlmError(f"{where}: is not a regular file; write the configuration to a file")
    try:
        content = _read_yaml(Path(file).read_text(encoding="utf-8"), where)
    except OSError as error:
        raise MlmError(f"{where}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise MlmError(f"{where}: cannot be read as UTF-8 ({error}); save it as UTF-8") from None
    if not isinstance(content, dict):
        raise MlmError(f"{where}: holds no keys; expected sections as in config.yaml")
    if "__use_yte__" in content:
        raise MlmError(f"{where}: is a program, which only Snakemake runs. Give its result")
    return content


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Refuses keys that YAML takes silently for something else: one that a section sets twice, of
    which the last counts, and `no`, which is false."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if key.tag == "tag:yaml.org,2002:bool":
                words = f"the key {name} is read as a boolean; write it in quotes: '{name}'"
                raise yaml.MarkedYAMLError(problem=words, problem_mark=key.start_mark)
            # `<<` merges other mappings, and may be repeated.
            if name in lines and name != "<<":
                words = f"{name} is set in line {lines[name]} of the same section, too; keep one"
                raise yaml.MarkedYAMLError(problem=words, problem_mark=key.start_mark)
            lines[name] = line
        return super().construct_mapping(node, deep)


def _read_yaml(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = (error.problem_mark or error.context_mark).line + 1
        problem = " ".join(filter(None, (error.context, error.problem)))
        raise MlmError(f"{where}, line {line}: not valid YAML: {problem}") from None
    except (ValueError, yaml.YAMLError) as error:
        problem = " ".join(str(error).split())
        raise MlmError(f"{where}: not valid YAML ({problem})") from None


def set_by_user(config: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the merged `config` that a user set: all of `overlay`, which came from
    `--configfile` and `--config`, and of config.yaml what differs from the defaults. Runs that the
    overlay names are trained alone."""
    whole, over = as_plain(config, Configuration), as_plain(overlay, Configuration)
    edited = differing(whole, Configuration().model_dump())
    given = merged(edited, over)
    # The overlay's own values, but merged with what config.yaml says of the same run.
    named = over.get("runs") if isinstance(over.get("runs"), dict) else None
    if isinstance(runs := whole.get("runs"), dict):
        given["runs"] = {n: r for n, r in runs.items() if not named or n in named}
    return given
