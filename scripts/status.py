"""Say what `snakemake` would do now and why, without doing it.

    .venv/bin/python scripts/status.py [--configfile my.yaml] [any option of snakemake]

Takes the options and targets that would be given to snakemake.
"""

import argparse
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from mlm.config.configuration import Configuration
from mlm.config.resolution import read_overlay
from mlm.foundations.command import run_command
from mlm.foundations.errors import MlmError, printable
from mlm.foundations.rerun_reasons import planned_jobs, stages

BASE = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    """Print a line for each stage that would run; the status is snakemake's own."""
    if {"--help", "-h"} & set(arguments):
        print(__doc__)
        return 0
    options, others = own_options(arguments)
    for before, argument in pairwise(["", *others]):
        # An option may have one value.
        is_value = before.startswith("-") and "=" not in before
        if argument.endswith((".yaml", ".yml")) and not is_value:
            raise MlmError(
                f"{argument}: taken for a target, a file to be made. To lay a configuration over "
                f"config.yaml: status.py --configfile {argument}"
            )
    if not Path(options.directory).is_dir():
        # Snakemake would make it, also for a dry run.
        raise MlmError(
            f"--directory {options.directory}: there is no such directory. Name the one with the "
            "results, or make it first: mkdir -p"
        )
    for file in options.configfile:
        read_overlay(Path(file))
    cores = [] if {"--cores", "-c"} & set(arguments) else ["--cores", "1"]
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(BASE / "Snakefile")]
    ran = subprocess.run(
        [*command, "--dry-run", *cores, *arguments],
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if ran.returncode:
        sys.stderr.write(ran.stdout + ran.stderr)
        return ran.returncode
    printed = ran.stdout + ran.stderr
    if planned := stages(planned_jobs(printed), Configuration().model_dump()):
        for (rule, *reasons), jobs in planned.items():
            of_one = f" [{jobs[0]}]" if jobs[0] else ""
            which = f" ({len(jobs)} jobs)" if len(jobs) > 1 else of_one
            print(printable(f"{rule}{which}: {'; '.join(reasons)}"))
    elif "Nothing to be done" in printed:
        print("Nothing to be done: every result is up to date.")
    else:  # the answer to another question, such as --summary
        sys.stdout.write(ran.stdout)
        sys.stderr.write(ran.stderr)
    return 0


def own_options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of snakemake that matter here: where the results are, and the overlays, in which
    Snakemake finds errors without saying where; and all other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--directory", "-d", default=".")
    parser.add_argument("--configfile", "--configfiles", nargs="+", action="extend", default=[])
    return parser.parse_known_args(arguments)


if __name__ == "__main__":
    run_command("status.py", main)
