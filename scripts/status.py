"""Say what `snakemake` would do now and why, without doing it.

    .venv/bin/python scripts/status.py [--configfile my.yaml] [any option of snakemake]

Takes the options and targets of snakemake. A dry run of it prints changed parameters whole, 114
lines for a new learning rate. Here old and new are compared key by key.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mlm.config.configuration import Configuration
from mlm.config.resolution import read_overlay
from mlm.foundations.command import run_command
from mlm.foundations.digests import ABSENT, differing_leaves
from mlm.foundations.errors import printable

SNAKEFILE = Path(__file__).resolve().parents[1] / "Snakefile"
_PARAMS = re.compile(r"across all output: before: (.*?) now: (.*)", re.S)
#: Of a module's meaning or a file: see mlm.foundations.digests.
_DIGEST = re.compile(r"[0-9a-f]{12}|[0-9a-f]{64}|\d+ bytes of \d+")
#: Where one of Snakemake's reasons ends and the next begins.
_NEXT_REASON = re.compile(
    r"; (?=Missing |Incomplete |Updated |Set of |Input files |Code |Software |Params )"
)


def main(arguments: list[str]) -> int:
    """Print a line for each stage that would run; the status is snakemake's own."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", action="extend", default=[])
    parser.add_argument("--help", "-h", action="store_true")
    options, _ = parser.parse_known_args(arguments)
    if options.help:
        print(__doc__)
        return 0
    for file in options.configfile:
        read_overlay(Path(file))  # Snakemake would not say in which line an error is.
    command = [sys.executable, "-m", "snakemake", "--snakefile", SNAKEFILE, "--dry-run"]
    ran = subprocess.run(
        [*command, "--cores", "1", *arguments],
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    planned = (
        {} if ran.returncode else stages(ran.stdout + ran.stderr, Configuration().model_dump())
    )
    for (rule, *reasons), jobs in planned.items():
        of_one = f" [{jobs[0]}]" if jobs[0] else ""
        which = f" ({len(jobs)} jobs)" if len(jobs) > 1 else of_one
        print(printable(f"{rule}{which}: {'; '.join(reasons)}"))
    if not planned and "Nothing to be done" in ran.stdout + ran.stderr:
        print("Nothing to be done: every result is up to date.")
    elif not planned:  # an error, or the answer to another question, such as --summary
        sys.stdout.write(ran.stdout)
        sys.stderr.write(ran.stderr)
    return ran.returncode


def stages(dry_run: str, config: dict) -> dict[tuple[str, ...], list[str]]:
    """Return the wildcards of the jobs that `snakemake --dry-run` printed, by rule and reasons in
    words. A changed key is looked up in `config`, resolved."""
    gathered: dict[tuple[str, ...], list[str]] = {}
    for job in re.split(r"^(?:local)?(?:rule|checkpoint) ", dry_run, flags=re.M)[1:]:
        rule = job.partition(":")[0]
        fields = dict(re.findall(r"^    (reason|wildcards): (.*)", job, re.M))
        if rule != "all":
            reasons = reasons_in_words(fields.get("reason", ""), config)
            gathered.setdefault((rule, *reasons), []).append(fields.get("wildcards", ""))
    return gathered


def reasons_in_words(reason: str, config: dict) -> list[str]:
    """Return one sentence for each thing that Snakemake's `reason` names."""
    words = []
    for text in _NEXT_REASON.split(reason.strip()):
        kind, _, rest = text.partition(": ")
        paths = sorted(path.strip() for path in rest.split(","))
        match kind.split(" ")[0]:
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
                words.append(text[:1].lower() + text[1:])
    return words


def _stage_of(path: str) -> str:
    """Return the stage that makes `path`: `tokenizer` for results/tokenizer/x.json, and so on."""
    parts = path.split("/")
    if parts[:2] == ["results", "runs"] and len(parts) > 3:
        name = parts[3].split(".")[0]
        return "pretrain" if name in ("model", "trained") else name
    return parts[1].split(".")[0] if parts[0] == "results" and len(parts) > 1 else path


def _changed_params(text: str, config: dict) -> list[str]:
    try:
        before, now = (
            [] if part.startswith("<nothing") else list(ast.literal_eval(f"[{part}]"))
            for part in _PARAMS.findall(text)[0]
        )
    except (IndexError, ValueError, SyntaxError):
        return ["its parameters changed"]
    lines = []
    for old in before:
        # The new value with the most keys in common.
        new = max(now, key=lambda value: len(_keys(old) & _keys(value)), default=ABSENT)
        sections = (name for name, keys in config.items() if _keys(new) <= _keys(keys))
        section = next(sections, "") if isinstance(new, dict) and new else ""
        for keys, *values in differing_leaves(old, new):
            if keys and all(v == ABSENT or _DIGEST.fullmatch(str(v)) for v in values):
                lines.append(f"{keys[-1]} changed")
            else:
                name = ".".join(filter(None, (section, *keys))) or "a setting"
                lines.append(f"{name} changed {' → '.join(map(_shown, values))}")
    # Two params of a rule may hold the same setting.
    return list(dict.fromkeys(lines)) or ["its parameters changed"]


def _keys(value: Any) -> set:
    return set(value) if isinstance(value, dict) else {type(value)}


def _shown(value: Any) -> str:
    text = value if value == ABSENT else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


if __name__ == "__main__":
    run_command("status.py", main)
