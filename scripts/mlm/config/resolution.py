"""The configuration as the workflow uses it: checked, complete, in plain types."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mlm.config.configuration import Configuration, Overrides
from mlm.config.problems import canonical, checked, merged
from mlm.config.sweep import swept
from mlm.foundations.errors import ConfigError, printable


class Settings(dict):
    """The resolved configuration as plain values, every default filled in. `runs` holds each run's
    overrides alone, a sweep's too; `given` is the part that was set, without any default."""

    given: dict[str, Any]


def resolve(given: Mapping[str, Any], problems: Iterable[str] = ()) -> Settings:
    """The configuration with every default filled in. What is `given` counts as wanted even if it
    equals a default. Raises ConfigError with every problem, `problems` among them."""
    given, wrong = swept(canonical(given, Configuration))
    configuration, found = checked(Configuration, given)
    plain = configuration.model_dump(exclude_unset=True)
    plain["runs"] = {
        name: overrides.model_dump(exclude_unset=True) if overrides else {}
        for name, overrides in configuration.runs.items()
    }
    runs = {name: _sections_of_run(plain, name) for name in plain["runs"]}
    found = [*problems, *wrong, *found, *configuration.problems(runs)]
    if found := found or _identical(runs, configuration.seed):
        raise ConfigError(list(dict.fromkeys(found)))
    settings = Settings(configuration.model_dump() | {"runs": plain["runs"]})
    settings["model"]["config"] = configuration.model.shown_fields()
    settings.given = plain
    return settings


def _identical(runs: Mapping[str, Overrides], seed: int) -> list[str]:
    """A line for each group of `runs` with the same settings, which would train one model twice."""
    alike: dict[str, list[str]] = {}
    for name, run in runs.items():
        own = run.pretraining.model_dump(exclude={"checkpoint"})
        own |= {"engine": run.engine, "forget": sorted(own["forget"])}
        own["seed"] = seed if own["seed"] is None else own["seed"]
        settings = [run.model.of_jobs(), own, run.evaluation.model_dump()]
        alike.setdefault(json.dumps(settings, sort_keys=True, default=str), []).append(name)
    return [
        f"runs: {', '.join(map(printable, names))} have the same settings; keep one of them. The "
        "runs of several overlays are added up"
        for names in alike.values()
        if len(names) > 1
    ]


def run_section(settings: Settings, run: str, section: str) -> dict[str, Any]:
    """Section `section` of the configuration as run `run` sees it."""
    return merged(settings[section], settings["runs"][run].get(section, {}))


def model_of_run(settings: Settings, run: str) -> dict[str, Any]:
    """Section `model` as the jobs of run `run` get it; see `Model.of_jobs`."""
    return _sections_of_run(settings.given, run).model.of_jobs()


def _sections_of_run(given: Mapping[str, Any], run: str) -> Overrides:
    """The sections that a run may override, with the overrides of `run` merged in."""
    common = {name: given.get(name, {}) for name in Overrides.model_fields}
    return Overrides.model_validate(merged(common, given["runs"][run]))
