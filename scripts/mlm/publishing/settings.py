"""What the section `publish` of the configuration asks for, and what is wrong with it.

Imports nothing but the standard library: the workflow reads it whenever it starts.
"""

import re
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_LONGEST = 96
#: What stands for the run's name in `publish.model`.
RUN = "{run}"


@dataclass(frozen=True)
class Destination:
    """Where something goes: a repository `owner/name`, its kind, and a branch of it.

    `kind` is `model` or `dataset`, in the Hub's words. `private` is what is asked for.
    """

    repository: str
    kind: str
    private: bool
    branch: str = "main"


def published_runs(config: dict) -> list[str]:
    """Names of the runs whose models are published, sorted; none without `publish.model`."""
    section = config["publish"]
    if not section["model"]:
        return []
    return sorted(section["runs"] if section["runs"] is not None else config["runs"])


def model_repository(section: dict, run: str) -> str | None:
    """The repository of the model of `run`; None where models are not published."""
    return section["model"] and section["model"].replace(RUN, run)


def name_problem(name: str) -> str | None:
    """What is wrong with the name of a repository, or None.

    Follows the rules of the Hub: owner/name, letters, digits, `-`, `_` and `.`, of which
    neither `--` nor `..`, at most 96 characters.
    """
    parts = name.split("/")
    if len(parts) != 2:
        return f"{name!r} is no name of a repository; owner/name is expected"
    if (
        not all(_NAME.fullmatch(part) for part in parts)
        or "--" in name
        or ".." in name
        or name.endswith(".git")
        or len(name) > _LONGEST
    ):
        return (
            f"{name!r} cannot be the name of a repository; the Hub takes letters, digits, '-', "
            f"'_' and '.' (none of '--', '..', '.git' at the end), at most {_LONGEST} characters"
        )
    return None


def publish_problems(config: dict) -> list[str]:
    """What is wrong with the section `publish` of a configuration, one line each."""
    section, problems = config["publish"], []
    for key in ("tokenizer", "dataset"):
        if section[key] and (problem := name_problem(section[key])):
            problems.append(f"publish.{key}: {problem}")
    problems += [
        f"publish.runs: no run is called {name!r}; there are: {', '.join(config['runs'])}"
        for name in section["runs"] or []
        if name not in config["runs"]
    ]
    problems += _model_problems(config)
    places = config["shards"]["prebuilt"]
    if section["dataset"] and config["shards"]["source"] == "prebuilt":
        problems += [
            f"publish.dataset: the {split} shards are in {place}; only shards on a local disk "
            "can be published. Set it to null, or copy them to this machine"
            for split, place in places.items()
            if place and "://" in place
        ]
    return problems


def _model_problems(config: dict) -> list[str]:
    section, problems, taken = config["publish"], [], {}
    if section["tokenizer"]:
        taken[section["tokenizer"]] = "the tokenizer"
    for run in published_runs(config):
        name = model_repository(section, run)
        if problem := name_problem(name):
            problems.append(f"publish.model: {problem}")
        elif name in taken:
            problems.append(
                f"publish.model: {taken[name]} and the model of run {run} would both go to "
                f"{name}. Put {RUN} into the name, or choose another"
            )
        taken.setdefault(name, f"the model of run {run}")
    checkpoints = section["checkpoints"]
    if checkpoints["every"] and not section["model"]:
        problems.append("publish.checkpoints.every: needs publish.model, the repository to push to")
    if not _BRANCH.fullmatch(checkpoints["branch"]) or checkpoints["branch"] == "main":
        problems.append(
            f"publish.checkpoints.branch: {checkpoints['branch']!r} cannot be the branch; letters, "
            "digits, '-', '_' and '.' are expected, and main is the finished model's"
        )
    return problems
