"""Files that the configuration names, looked for before anything is planned: Snakemake takes the
results of a missing file as up to date, whatever else changed."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mlm.config.configuration import Configuration
from mlm.config.fields import unexpanded
from mlm.foundations.errors import MlmError, listed

#: Characters of names that Snakemake reads as wildcards ({run}) or path variables (<results>), or
#: that no record can hold.
_UNUSABLE = re.compile(r"[{}<>\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def wrong_with_name(path: str) -> str | None:
    """The end of a sentence on the name `path` of a file or a directory; None if it is usable."""
    if _UNUSABLE.search(path):
        return "has one of {}<>, a control character or no UTF-8 in its name; rename it"
    return None


def wrong_with_file(path: str) -> str | None:
    """A sentence if there is no file `path`, or its name cannot be used; None if there is one."""
    if problem := wrong_with_name(path):
        return f"{path} {problem}"
    if os.path.isfile(path):
        return None
    what = "a directory" if os.path.isdir(path) else "not there"
    return (
        f"{path} is {what}; name a file, relative to the working directory ({os.getcwd()}), or "
        f"leave it out{unexpanded(path)}"
    )


def all_named_files(settings: Configuration | None, *finders: Callable[[], Any]) -> list[Any]:
    """What each of `finders` returns, after a look for the files of `settings`, which is None in a
    job: other files may not be where it runs. Raises one MlmError with all problems of all."""
    problems = problems_of_named_files(settings) if settings else []
    messages = [f"Files of the configuration:\n{listed(problems)}"] * bool(problems)
    results = []
    for find in finders:
        try:
            results.append(find())
        except MlmError as error:
            messages.append(str(error))
    if messages:
        raise MlmError("\n".join(messages))
    return results


def problems_of_named_files(settings: Configuration) -> list[str]:
    """A line for each file of the configuration that is not there, beginning with its key, and for
    each path that cannot be used. Files that patterns name are for `corpus.file_patterns`."""
    problems = []
    for key, path, is_file in _named(settings):
        if is_file and (problem := wrong_with_file(path)):
            problems.append(f"{key}: {problem}")
        elif problem := wrong_with_name(path):
            problems.append(f"{key}: {path} {problem}")
    return list(dict.fromkeys(problems))


def _named(settings: Configuration) -> Iterator[tuple[str, str, bool]]:
    """Each path that the configuration names, with its key and whether it has to be a file."""
    for run in settings.sections_of_runs().values():
        for path in run.evaluation.minimal_pair_files:
            yield "evaluation.minimal_pair_files", path, True
        for key in ("config_file", "start_from"):
            if path := getattr(run.model, key):
                yield f"model.{key}", path, False  # which the section reads itself
    if settings.finetune.data.source == "csv":
        yield "finetune.data.file", settings.finetune.data.file, True
    for place in settings.finetune.also:
        yield "finetune.also", place, False
    if settings.tokenizer.kind == "pretrained":
        yield "tokenizer.pretrained.path", settings.tokenizer.pretrained.path, False
    for name, place in settings.report.also.items():
        yield f"report.also.{name}", place, False


def files_of_other_runs(also: Mapping[str, str]) -> list[Path]:
    """The files that are read of the directories of `report.also`, by name; MlmError with every
    directory that lacks one or is of this working directory."""
    problems, files = [], []
    for name, directory in also.items():
        place, key = Path(directory), f"report.also.{name}: {directory}"
        of_run = [place / "training.json", place / "evaluation.json"]
        if Path("results").resolve() in place.resolve().parents:
            problems.append(f"{key} is of this working directory itself")
        elif missing := [file.name for file in of_run if not file.is_file()]:
            near = sorted(place.glob("results/runs/*/evaluation.json"))
            hint = near[0].parent if near else "../other/results/runs/base"
            problems.append(f"{key} lacks {' and '.join(missing)}; expected such as {hint}")
        files += of_run
    if problems:
        raise MlmError(f"Runs of other directories:\n{listed(problems)}")
    return files
