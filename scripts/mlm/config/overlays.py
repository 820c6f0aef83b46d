"""From YAML to the configuration: config.yaml, overlays and the command line."""

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from mlm.config.configuration import Configuration, Overrides
from mlm.config.error_messages import sentences, valid_part
from mlm.config.fields import with_nulls
from mlm.config.merging_and_sweeps import differing, merged, swept
from mlm.foundations.command_line import chosen_run, enter_directory
from mlm.foundations.errors import ConfigError, MlmError, listed

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader

_DEFAULTS = Path(__file__).resolve().parents[3] / "config.yaml"
#: The key of --config that lets results of other overlays be replaced; no setting.
REPLACE = "replace"


def resolve(values: Mapping[str, Any]) -> Configuration:
    """The configuration with every default filled in and a sweep's runs in its place. Every one of
    `values` counts as set even if it equals a default. Raises ConfigError with every problem."""
    values, wrong = swept(with_nulls(values), Overrides.model_fields), []
    try:
        configuration = Configuration.model_validate(values)
    except ValidationError as error:
        wrong = sentences(error, Configuration)
        configuration = valid_part(error, Configuration, values)
    # A default replaces a wrong value; its contradictions are not reported.
    keys = {re.split(r"[:\[]", line)[0] for line in wrong} - {"runs"}
    told = tuple(key + end for key in keys for end in ":.")
    others = (line for line in configuration.problems() if not line.startswith(told))
    if problems := list(dict.fromkeys([*wrong, *others])):
        raise ConfigError(problems)
    tokenizer = configuration.tokenizer.for_corpus(configuration.corpus.source)
    return configuration.model_copy(update={"tokenizer": tokenizer})


def read_settings(
    defaults: Path, overlays: Iterable[str | Path], assignments: Iterable[str] = ()
) -> Configuration:
    """The resolved configuration of config.yaml, at `defaults`, `overlays` and `assignments`, each
    KEY=VALUE. Raises MlmError for an unreadable file, and ConfigError with every problem."""
    assigned = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise MlmError(f"--config {assignment}: expected KEY=VALUE")
        assigned.append({key: _read_yaml(value, f"--config {assignment}")})
    return laid_over(read_overlay(defaults), [*map(read_overlay, overlays), *assigned])


def settings_and_run(options: Namespace) -> tuple[Configuration, str]:
    """Enter `--directory`, and return the resolved configuration there and the run's name."""
    enter_directory(options)
    settings = read_settings(_DEFAULTS, options.configfile, options.config)
    return settings, chosen_run(settings.runs, options.run)


def settings_of(workflow: Any, config: Mapping[str, Any]) -> Configuration:
    """The resolved configuration of Snakemake's `workflow`. Its files are read again: Snakemake
    would put steps of one beside epochs of another. If another workflow uses it as a module,
    `config` is what that gives, over the defaults. Raises MlmError and ConfigError as
    `read_settings` does."""
    if workflow.modifier.skip_configfile:
        return resolve(config)
    if workflow.is_main_process:
        check_repeated(sys.argv[1:])
    options = workflow.config_settings
    overlays = [Path(file) for file in options.configfiles]
    base = [file for file in map(Path, workflow.configfiles) if file not in overlays]
    replaced = options.replace_workflow_config or not base or not base[0].is_file()
    assigned = {key: value for key, value in options.config.items() if key != REPLACE}
    layers = [*map(read_overlay, overlays), assigned]
    return laid_over({} if replaced else read_overlay(base[0]), layers)


def laid_over(config_yaml: dict[str, Any], layers: Iterable[dict[str, Any]]) -> Configuration:
    """The resolved configuration of what differs from the defaults in `config_yaml`, under all of
    the `layers`. If these name runs, no others are trained."""
    edited = differing(config_yaml, {**Configuration().model_dump(), "runs": None})
    overlay = reduce(merged, layers, {})
    named, runs = overlay.get("runs"), edited.get("runs")
    if isinstance(named, dict) and named and isinstance(runs, dict):
        edited["runs"] = {name: run for name, run in runs.items() if name in named}
    return resolve(merged(edited, overlay))


def check_repeated(arguments: Collection[str]) -> None:
    """Raise MlmError if Snakemake's `arguments` repeat `--configfile` or `--config`."""
    options = (
        ("--configfile", r"--configfiles?(=|$)", "a.yaml b.yaml"),
        ("--config", r"--config(=|$)|-C", "seed=1 'report={title: Mine}'"),
    )
    for option, spelling, values in options:
        if (count := sum(bool(re.match(spelling, word)) for word in arguments)) > 1:
            raise MlmError(
                f"{option} is set {count} times, and Snakemake reads the last alone. Name all "
                f"after one: {option} {values}"
            )


def read_overlay(file: str | Path) -> dict[str, Any]:
    """The content of a configuration file; MlmError with file, line and remedy if it has none."""
    where = f"--configfile {file}"
    try:
        content = _read_yaml(Path(file).read_text(encoding="utf-8"), where)
    except (OSError, UnicodeDecodeError) as error:
        raise MlmError(f"{where}: cannot be read as UTF-8 ({error})") from None
    if not isinstance(content, dict):
        raise MlmError(f"{where}: holds no keys; expected sections as in config.yaml")
    return content


class _Loader(SafeLoader):  # pyright: ignore[reportGeneralTypeIssues]
    """Takes each key as the text that it is, also `no` and 7, and refuses one that a section sets
    twice, of which the last would count."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            key.tag = "tag:yaml.org,2002:str"
            if (name := str(key.value)) in lines:
                words = f"{name} is set in line {lines[name]} of the same section, too; keep one"
                raise yaml.MarkedYAMLError(problem=words, problem_mark=key.start_mark)
            lines[name] = key.start_mark.line + 1
        super().flatten_mapping(node)
        # What is merged stands first. Flattened again for another merge, none is there twice.
        node.value = list({str(key.value): (key, value) for key, value in node.value}.values())


def _read_yaml(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(filter(None, (error.context, error.problem)))
        line = f", line {mark.line + 1}" if mark else ""
        raise MlmError(f"{where}{line}: not valid YAML: {problem}") from None
    except (ValueError, yaml.YAMLError) as error:
        problem = " ".join(str(error).split())
        raise MlmError(f"{where}: not valid YAML ({problem})") from None


def all_named_files(settings: Configuration | None, *finders: Callable[[], Any]) -> list[Any]:
    """The results of `finders`, which look for files of the configuration, after a look for the
    others that `settings` names; these are None in a job, where files may not be. Raises one
    MlmError with all problems of all: Snakemake takes the results of a missing file as done."""
    problems, results = [*settings.missing_files()] if settings else [], []
    messages = [f"Files of the configuration:\n{listed(problems)}"] * bool(problems)
    for find in finders:
        try:
            results.append(find())
        except MlmError as error:
            messages.append(str(error))
    if messages:
        raise MlmError("\n".join(messages))
    return results


def files_of_other_runs(also: Mapping[str, str]) -> list[Path]:
    """The files that are read of the directories of `report.also`, by name; MlmError with every
    directory that lacks one."""
    names = "training.json", "evaluation.json"
    problems = [
        f"report.also.{name}: {directory} lacks {' or '.join(names)}; expected is the directory of "
        "a finished run, such as ../other/results/runs/base"
        for name, directory in also.items()
        if not all(Path(directory, file).is_file() for file in names)
    ]
    if problems:
        raise MlmError(f"Runs of other directories:\n{listed(problems)}")
    return [Path(directory, file) for directory in also.values() for file in names]
