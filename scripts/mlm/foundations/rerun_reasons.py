"""Why each stage would run, in words: Snakemake's reasons, and what exactly changed.

Snakemake prints changed parameters whole, without their keys' place in the configuration: 114 lines
for a new learning rate. Here old and new are compared key by key, which makes 5.
"""

import ast
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from mlm.foundations.artefacts import is_artefact, made_from, settings_digests
from mlm.foundations.differences import ABSENT, differing_leaves
from mlm.foundations.errors import MlmError

_RULE = re.compile(r"^(?:local)?(?:rule|checkpoint) (\w+):")
_FIELD = re.compile(r"^    (reason|wildcards|output): (.*)")
_PARAMS = re.compile(r"across all output: before: (.*?) now: (.*)", re.S)
#: The digest of a module's meaning, and the identity of a file: see mlm.foundations.digests.
_MEANING = re.compile("[0-9a-f]{12}")
_IDENTITY = re.compile(r"[0-9a-f]{64}|\d+ bytes of \d+")
#: What begins each of Snakemake's reasons.
_KIND = re.compile(
    r"Missing output files|Updated input files|Input files updated by another job|"
    r"Set of input files has changed|Code has changed|Software environment definition has changed|"
    r"Params have changed|Forced execution"
)


@dataclass
class PlannedJob:
    """A job of the dry run: rule, wildcards ("run=base"), Snakemake's reason, and outputs."""

    rule: str
    wildcards: str = ""
    reason: str = ""
    output: str = ""


@dataclass
class PlannedStage:
    """All planned jobs of one rule that run for the same reasons."""

    rule: str
    reasons: list[str]
    jobs: list[str] = field(default_factory=list)


def planned_jobs(dry_run: str) -> list[PlannedJob]:
    """The jobs that the text of `snakemake --dry-run` announces, in its order."""
    jobs: list[PlannedJob] = []
    for line in dry_run.splitlines():
        if found := _RULE.match(line):
            jobs.append(PlannedJob(found[1]))
        elif jobs and (found := _FIELD.match(line)):
            setattr(jobs[-1], found[1], found[2].strip())
    return jobs


def stages(jobs: list[PlannedJob], config: dict, directory: str | Path = ".") -> list[PlannedStage]:
    """Planned jobs gathered by rule and reasons, with the reasons in words. In `config`, resolved,
    a changed key is looked up; results below `directory` have the names of other settings."""
    found: dict[tuple, PlannedStage] = {}
    for job in jobs:
        if job.rule != "all":
            recorded = {}
            for path in filter(is_artefact, job.output.split(", ")):
                # Of what is damaged or of another version, Snakemake's start has told.
                with suppress(MlmError, OSError):
                    recorded = recorded or made_from(Path(directory, path)).settings
            reasons = reasons_in_words(job.reason, config, recorded)
            stage = found.setdefault((job.rule, *reasons), PlannedStage(job.rule, reasons))
            stage.jobs.append(job.wildcards)
    return list(found.values())


def reasons_in_words(
    reason: str, config: dict, recorded: Mapping[str, str] | None = None
) -> list[str]:
    """One sentence for each thing that Snakemake's `reason` names.

    `recorded` has the digests of the job's params as they were, by name: Snakemake gives no names.
    """
    starts = [found.start() for found in _KIND.finditer(reason)]
    words = []
    for start, end in pairwise([*starts, len(reason)]):
        text = reason[start:end].strip().rstrip(";")
        kind, _, rest = text.partition(": ")
        paths = sorted(rest.split(", "))
        match kind.split()[0]:
            case "Params":
                words += _changed_params(text, config, recorded or {})
            case "Updated":
                words += [f"{path} changed" for path in paths]
            case "Input":
                words.append(f"follows from {', '.join(sorted(set(map(_stage_of, paths))))}")
            case "Missing":
                brief = f"{paths[0]} and {len(paths) - 1} more"
                words.append(f"{' and '.join(paths) if len(paths) <= 2 else brief} not made yet")
            case "Set":
                words.append("other input files than last time")
            case "Code":
                words.append("its script or the rule itself was edited")
            case _:
                words.append(text[0].lower() + text[1:])
    return words or [reason or "no reason given"]


def _stage_of(path: str) -> str:
    """The stage that makes `path`: `tokenizer` for results/tokenizer/x.json, and so on."""
    parts = path.strip().split("/")
    if parts[:2] == ["results", "runs"] and len(parts) > 3:
        name = parts[3].split(".")[0]
        return {"model": "pretrain", "trained": "pretrain"}.get(name, name)
    return parts[1].split(".")[0] if parts[0] == "results" and len(parts) > 1 else path.strip()


def _changed_params(text: str, config: dict, recorded: Mapping[str, str]) -> list[str]:
    try:
        before, now = (
            [] if part.startswith("<nothing") else list(ast.literal_eval(f"[{part}]"))
            for part in _PARAMS.search(text).groups()
        )
    except (AttributeError, ValueError, SyntaxError):
        return ["its parameters changed"]
    lines = []
    for old, new in _pairs(before, now):
        if isinstance(old, dict) and isinstance(new, dict):
            place = _place(new, config)
            lines += [_changed(place, *difference) for difference in differing_leaves(old, new)]
        else:
            (digest,) = settings_digests({"": old}).values()
            names = [name for name, of_name in recorded.items() if of_name == digest]
            # Of several that had this value, which of them changed is not known.
            name = _place({names[0]: old}, config) + names[0] if len(names) == 1 else "a setting"
            lines.append(f"{name} changed {_shown(old)} → {_shown(new)}")
    # Two params of a rule may hold the same setting.
    return list(dict.fromkeys(lines)) or ["its parameters changed"]


def _changed(place: str, way: tuple[str, ...], old: Any, new: Any) -> str:
    """One difference between two params: of a setting, of a module, or of a file."""
    values = [value for value in (old, new) if value != ABSENT]
    if all(isinstance(v, str) and _MEANING.fullmatch(v) for v in values):
        return f"the code it uses was edited: {way[-1]}"
    if all(isinstance(v, str) and _IDENTITY.fullmatch(v) for v in values):
        return f"{way[-1]} changed"
    return f"{place}{'.'.join(way)} changed {_shown(old)} → {_shown(new)}"


def _pairs(before: list, now: list) -> list[tuple]:
    """Old and new values that belong together: those with the most keys in common."""

    def likeness(old: Any, new: Any) -> int:
        both = isinstance(old, dict) and isinstance(new, dict)
        return len(old.keys() & new.keys()) if both else int(type(old) is type(new))

    pairs, left = [], list(now)
    for old in before:
        best = max(left, key=lambda new: likeness(old, new), default=ABSENT)
        if best != ABSENT and likeness(old, best):
            left.remove(best)
            pairs.append((old, best))
        else:
            pairs.append((old, None))
    return pairs + [(None, new) for new in left]


def _place(value: dict, config: dict) -> str:
    """The section of the configuration that has all the keys of `value`, with a dot."""
    for name, section in sorted(config.items()):
        if isinstance(section, dict) and value and value.keys() <= section.keys():
            return f"{name}."
    return ""


def _shown(value: Any) -> str:
    text = repr(value) if value != ABSENT else value
    return text if len(text) <= 60 else text[:57] + "…"
