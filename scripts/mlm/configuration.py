"""The configuration: defaults, validation with all problems at once, and runs."""

import contextlib
import copy
import difflib
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from mlm.errors import ConfigError
from mlm.evaluation.settings import evaluation_problems
from mlm.preflight.tpu_chips import target_problem
from mlm.pretraining.model_settings import model_of_jobs, model_problems
from mlm.publishing.settings import publish_problems
from mlm.tokenizer.settings import tokenizer_problems

#: Sections that a run may override.
RUN_SECTIONS = ("model", "pretraining", "evaluation")
SPLITS = ("train", "validation", "test")
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def load_schema(path: str | Path) -> dict:
    """The JSON schema (draft 2020-12) of the configuration, with its defaults."""
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def resolve(config: dict, schema: dict) -> dict:
    """The configuration with every default filled in, in canonical types.

    `config` is what the user gave. The result has for each run in `runs` its overrides
    only; `run_section` merges them. Integers stand as float where the schema says
    `number`, so that `1` and `1.0` are the same setting.

    Raises ConfigError with every problem that was found.
    """
    config = copy.deepcopy(dict(config))
    problems: list[str] = []
    config = _canonical(config, schema, "", problems)
    errors = _schema_errors(config, schema)
    problems += [line for error in errors for line in _in_words(error)]
    # What is wrong by itself takes its default for the checks of one key against another,
    # so that all problems are told at once.
    sound = _with_defaults(_without(config, errors), schema)
    sound["runs"] = {name: overrides or {} for name, overrides in sound["runs"].items()}
    problems += _consistency_problems(sound, schema)
    if problems:
        raise ConfigError(problems)
    return sound


def run_section(config: dict, run: str, section: str) -> dict:
    """Section `section` of a resolved configuration as run `run` sees it."""
    return _merged(config[section], config["runs"][run].get(section, {}))


def model_of_run(config: dict, run: str, schema: dict) -> dict:
    """Section `model` of a resolved configuration as the jobs of run `run` get it."""
    return model_of_jobs(run_section(config, run, "model"), _model_defaults(schema))


def _model_defaults(schema: dict) -> dict:
    return schema["$defs"]["model"]["properties"]["config"]["default"]


def _merged(base: Any, override: Any) -> Any:
    if isinstance(base, dict) and isinstance(override, dict):
        keys = list(base) + [k for k in override if k not in base]
        return {
            k: _merged(base[k], override[k])
            if k in base and k in override
            else copy.deepcopy(override[k] if k in override else base[k])
            for k in keys
        }
    return copy.deepcopy(override)


def _follow(schema: dict, root: dict) -> dict:
    """`schema` with a local `$ref` replaced by what it points to."""
    while "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    return schema


def _types(schema: dict) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else types


def _canonical(value: Any, schema: dict, where: str, problems: list[str], root=None) -> Any:
    """`value` in the types the schema asks for, where that loses nothing."""
    root = root or schema
    schema = _follow(schema, root)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        other = schema.get("additionalProperties")
        result = {}
        for key, item in value.items():
            child = known.get(key, other if isinstance(other, dict) else {})
            path = f"{where}.{key}" if where else str(key)
            result[str(key)] = _canonical(item, child, path, problems, root)
        return result
    if isinstance(value, list | tuple):
        child = schema.get("items", {})
        return [_canonical(v, child, f"{where}[{i}]", problems, root) for i, v in enumerate(value)]
    types = _types(schema)
    if isinstance(value, str):
        value = _from_text(value, types)
    if "number" in types and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if "integer" in types and isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, float) and not math.isfinite(value):
        problems.append(f"{where}: {value} is no finite number")
    return value


def _from_text(text: str, types: list[str]) -> Any:
    """What `text` stands for where one of `types` is expected, all of them if there are none.

    Snakemake gives text for every value inside a nested `--config`, and YAML for `1e-4`.
    """
    if text in ("null", "~") and ("null" in types or not types):
        return None
    if "string" in types:
        return text
    if text.lower() in ("true", "false") and ("boolean" in types or not types):
        return text.lower() == "true"
    if {"number", "integer"} & set(types) or not types:
        for kind in (int, float):
            with contextlib.suppress(ValueError):
                return kind(text)
    return text


def _schema_errors(config: dict, schema: dict) -> list[jsonschema.ValidationError]:
    validator = jsonschema.Draft202012Validator(schema)
    return sorted(validator.iter_errors(config), key=lambda e: [str(p) for p in e.absolute_path])


def _without(config: dict, errors: list[jsonschema.ValidationError]) -> dict:
    """`config` without the values that `errors` are about."""
    config = copy.deepcopy(config)
    for error in errors:
        *way, last = list(error.absolute_path) or [None]
        # An item of a list cannot go alone: the items behind it would move up.
        while isinstance(last, int) and way:
            last = way.pop()
        holder = config
        for part in way:
            holder = holder[part] if isinstance(holder, dict) and part in holder else {}
        if error.validator == "additionalProperties":
            found = holder.get(last, {}) if last is not None else config
            for key in set(found) - set(error.schema.get("properties", {})):
                del found[key]
        elif last is None:
            return {}
        else:
            holder.pop(last, None)
    return config


def _in_words(error: jsonschema.ValidationError) -> list[str]:
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    if error.validator == "additionalProperties":
        known = sorted(error.schema.get("properties", {}))
        lines = []
        for key in sorted(set(error.instance) - set(known)):
            name = f"{path}.{key}" if path else key
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
            lines.append(f"{name}: unknown key; {hint}")
        return lines
    found = "null" if error.instance is None else repr(error.instance)
    if error.validator == "type":
        expected = " or ".join(_types(error.schema))
        return [f"{path}: found {found}, expected {expected}"]
    if error.validator == "enum":
        options = ", ".join(map(str, error.validator_value))
        return [f"{path}: found {found}, expected one of: {options}"]
    return [f"{path or 'the configuration'}: {error.message}"]


def _with_defaults(value: Any, schema: dict, root: dict | None = None) -> Any:
    root = root or schema
    schema = _follow(schema, root)
    if not isinstance(value, dict):
        return value
    value = dict(value)
    for key, child in schema.get("properties", {}).items():
        child = _follow(child, root) | {k: v for k, v in child.items() if k != "$ref"}
        if key not in value:
            if "default" in child:
                value[key] = copy.deepcopy(child["default"])
            elif "properties" in child:
                value[key] = {}
            else:
                continue
        value[key] = _with_defaults(value[key], child, root)
    return value


def _consistency_problems(config: dict, schema: dict) -> list[str]:
    """What no single key shows: settings that contradict each other."""
    problems = _corpus_problems(config) + _report_problems(config) + publish_problems(config)
    problems += _preflight_problems(config["preflight"]) + _finetune_problems(config["finetune"])
    problems += [
        f"runs: {name!r} cannot be a file name; use letters, digits, '_', '-' and '.' (at most "
        "64, the first a letter or digit)"
        for name in config["runs"]
        if not _RUN_NAME.fullmatch(str(name))
    ]
    for run in config["runs"]:
        sections = {s: run_section(config, run, s) for s in RUN_SECTIONS}
        where = f"runs.{run}: " if config["runs"][run] else ""
        problems += [where + p for p in _run_problems(config, sections, _model_defaults(schema))]
    return list(dict.fromkeys(problems))


def _corpus_problems(config: dict) -> list[str]:
    corpus, problems = config["corpus"], []
    if corpus["source"] == "files" and not corpus["files"]["train"]:
        problems.append("corpus.files.train: empty; name at least one file or glob pattern")
    if corpus["source"] == "hub":
        hub = corpus["hub"]
        problems += [
            f"corpus.hub.{key}: missing; {what}"
            for key, what in {
                "dataset": "name the dataset",
                "revision": "pin the dataset to a commit, so that the data cannot change",
            }.items()
            if not hub[key]
        ]
    shares = corpus["held_out"]
    if sum(shares.values()) >= 1:
        problems.append(f"corpus.held_out: {shares} leave nothing to train on")
    low, high = corpus["filters"]["min_characters"], corpus["filters"]["max_characters"]
    if high is not None and high < low:
        problems.append(f"corpus.filters: max_characters {high} is below min_characters {low}")
    tokenizer = config["tokenizer"]
    problems += tokenizer_problems(tokenizer)
    special = list(tokenizer["special_tokens"].values())
    if len(set(special)) != len(special):
        problems.append(f"tokenizer.special_tokens: two are the same in {special}")
    if tokenizer["kind"] == "pretrained":
        path, revision = tokenizer["pretrained"]["path"], tokenizer["pretrained"]["revision"]
        if not path:
            problems.append("tokenizer.pretrained.path: missing; name a directory or a Hub id")
        elif not Path(path).is_dir() and not revision:
            problems.append(
                f"tokenizer.pretrained.revision: missing; {path!r} is no directory here, and a "
                "Hub id needs the commit it is pinned to"
            )
    if config["shards"]["source"] == "prebuilt":
        problems += [
            f"shards.prebuilt.{split}: missing; a directory or gs:// prefix is expected"
            for split, place in config["shards"]["prebuilt"].items()
            if not place
        ]
    return problems


def _report_problems(config: dict) -> list[str]:
    shown = config["report"]["runs"]
    return [
        f"report.runs: no run is called {name!r}; there are: {', '.join(config['runs'])}"
        for name in shown or []
        if name not in config["runs"]
    ]


def _preflight_problems(section: dict) -> list[str]:
    low, high = section["utilisation"]["low"], section["utilisation"]["high"]
    problems = [f"preflight.utilisation: low {low} is above high {high}"] if low > high else []
    wrong = (target_problem(target) for target in section["targets"])
    return problems + [f"preflight.targets: {problem}" for problem in wrong if problem]


def _finetune_problems(section: dict) -> list[str]:
    if section["data"]["source"] == "csv":
        if not section["data"]["file"]:
            return ["finetune.data.file: missing; name the CSV file with your examples"]
    elif section["task"] != "regression":
        return [
            f"finetune.task: {section['task']} needs data of its own; set finetune.data.source: "
            "csv. The embedded task, the year of a passage, is a regression"
        ]
    return []


def _run_problems(config: dict, sections: dict, defaults: dict) -> list[str]:
    pretraining, problems = sections["pretraining"], []
    lengths = {k: pretraining[k] for k in ("steps", "epochs", "tokens") if pretraining[k]}
    if len(lengths) != 1:
        found = ", ".join(f"{k}: {v}" for k, v in lengths.items()) or "none of them"
        problems.append(
            f"pretraining: exactly one of steps, epochs, tokens must be set; found {found}"
        )
    if pretraining["profile"]:
        (first, last), steps = pretraining["profile"], pretraining["steps"]
        if first > last:
            problems.append(
                f"pretraining.profile: the first step {first} is after the last, {last}"
            )
        elif steps and last > steps:
            problems.append(f"pretraining.profile: step {last} is beyond the last, {steps}")
    problems += evaluation_problems(sections["evaluation"])
    masking = pretraining["masking"]
    if masking["mask_token"] + masking["random_token"] > 1 + 1e-9:
        problems.append("pretraining.masking: mask_token and random_token add up to more than 1")
    problems += model_problems(sections["model"], defaults, config["shards"]["sequence_length"])
    mask = config["tokenizer"]["special_tokens"]["mask"]
    if config["tokenizer"]["kind"] != "pretrained":
        for prompt in sections["evaluation"]["prompts"]:
            if prompt.count(mask) != 1:
                problems.append(
                    f"evaluation.prompts: {prompt!r} holds {mask} {prompt.count(mask)} times; "
                    "exactly once is expected"
                )
    return problems
