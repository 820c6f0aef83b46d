"""Why each stage would run: the reasons that a dry run of Snakemake prints, in words.

Snakemake prints changed parameters whole, 114 lines for a new learning rate. Here old and new are
compared key by key.
"""

import ast
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mlm.foundations.digests import ABSENT, differing_leaves

_RULE = re.compile(r"^(?:local)?(?:rule|checkpoint) (\w+):")
_FIELD = re.compile(r"^    (reason|wildcards): (.*)")
_PARAMS = re.compile(r"across all output: before: (.*?) now: (.*)", re.S)
#: Of a module's meaning or a file: see mlm.foundations.digests.
_DIGEST = re.compile(r"[0-9a-f]{12}|[0-9a-f]{64}|\d+ bytes of \d+")
#: The beginning of each of Snakemake's reasons.
_KIND = re.compile(
    r"Missing output files|Updated input files|Input files updated by another job|"
    r"Set of input files has changed|Code has changed|Software environment definition has changed|"
    r"Params have changed|Forced execution"
)


@dataclass
class PlannedJob:
    """A job of the dry run: rule, wildcards ("run=base") and Snakemake's reason."""

    rule: str
    wildcards: str = ""
    reason: str = ""


def planned_jobs(dry_run: str) -> list[PlannedJob]:
    """The jobs that the text of `snakemake --dry-run` announces, in its order."""
    jobs: list[PlannedJob] = []
    for line in dry_run.splitlines():
        if rule := _RULE.match(line):
            jobs.append(PlannedJob(rule[1]))
        elif jobs and (named := _FIELD.match(line)):
            setattr(jobs[-1], named[1], named[2].strip())
    return jobs


def stages(jobs: list[PlannedJob], config: dict) -> dict[tuple[str, ...], list[str]]:
    """The wildcards of planned jobs, gathered by rule and reasons in words. In `config`, resolved,
    a changed key is looked up."""
    gathered: dict[tuple[str, ...], list[str]] = {}
    for job in jobs:
        if job.rule != "all":
            stage = job.rule, *reasons_in_words(job.reason, config)
            gathered.setdefault(stage, []).append(job.wildcards)
    return gathered


def reasons_in_words(reason: str, config: dict) -> list[str]:
    """One sentence for each thing that Snakemake's `reason` names."""
    starts = [kind.start() for kind in _KIND.finditer(reason)]
    words = []
    for start, end in pairwise([*starts, len(reason)]):
        text = reason[start:end].strip().rstrip(";")
        kind, _, rest = text.partition(": ")
        paths = sorted(rest.split(", "))
        match kind.split()[0]:
            case "Params":
                words += _changed_params(text, config)
            case "Updated":
                words += [f"{path} changed" for path in paths]
            case "Input":
                words.append(f"follows from {', '.join(sorted(set(map(_stage_of, paths))))}")
            case "Missing":
                brief = f"{paths[0]} and {len(paths) - 1} more"
                words.append(f"{' and '.join(paths) if len(paths) <= 2 else brief} not made yet")
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


def _changed_params(text: str, config: dict) -> list[str]:
    try:
        before, now = (
            [] if part.startswith("<nothing") else list(ast.literal_eval(f"[{part}]"))
            for part in _PARAMS.search(text).groups()
        )
    except (AttributeError, ValueError, SyntaxError):
        return ["its parameters changed"]
    lines = []
    for old in before:
        # The new value with the most keys in common.
        new = max(now, key=lambda value: len(_keys(old) & _keys(value)), default=ABSENT)
        if isinstance(old, dict) and isinstance(new, dict):
            section = _section(new, config)
            lines += [_changed(section, *difference) for difference in differing_leaves(old, new)]
        else:
            lines.append(f"a setting changed {_shown(old)} → {_shown(new)}")
    # Two params of a rule may hold the same setting.
    return list(dict.fromkeys(lines)) or ["its parameters changed"]


def _keys(value: Any) -> set:
    return set(value) if isinstance(value, dict) else {type(value)}


def _changed(section: str, way: tuple[str, ...], old: Any, new: Any) -> str:
    """One difference between two params: of a setting, or of a module or a file with a digest."""
    if all(value == ABSENT or _DIGEST.fullmatch(str(value)) for value in (old, new)):
        return f"{way[-1]} changed"
    return f"{section}{'.'.join(way)} changed {_shown(old)} → {_shown(new)}"


def _section(value: dict, config: dict) -> str:
    """The section of the configuration that has all the keys of `value`, with a dot."""
    for name, section in sorted(config.items()):
        if isinstance(section, dict) and value and value.keys() <= section.keys():
            return f"{name}."
    return ""


def _shown(value: Any) -> str:
    text = value if value == ABSENT else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
