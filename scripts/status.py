"""Say what `snakemake` would do now and why, without doing it.

    .venv/bin/python scripts/status.py [--configfile my.yaml] [any option of snakemake]

Takes the options and targets that would be given to snakemake.
"""

import subprocess
import sys
from pathlib import Path

from mlm.config.resolution import resolve
from mlm.jobs.rerun_reasons import planned_jobs, stages

BASE = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    """Print a line for each stage that would run; the status is snakemake's own."""
    if {"--help", "-h"} & set(arguments):
        print(__doc__.strip())
        return 0
    if forgotten := configurations_among_targets(arguments):
        print(
            f"{' '.join(forgotten)}: taken for a target, a file to be made. To lay a configuration "
            f"over config.yaml: status.py --configfile {' '.join(forgotten)}",
            file=sys.stderr,
        )
        return 2
    cores = [] if {"--cores", "-c"} & set(arguments) else ["--cores", "1"]
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(BASE / "Snakefile")]
    ran = subprocess.run(
        [*command, "--dry-run", *cores, *arguments], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        sys.stderr.write(ran.stdout + ran.stderr)
        return ran.returncode
    found = stages(planned_jobs(ran.stdout + ran.stderr), resolve({}))
    if not found and "Nothing to be done" in ran.stdout + ran.stderr:
        print("Nothing to be done: every result is up to date.")
    elif not found:  # the answer to another question, such as --version or --list
        sys.stdout.write(ran.stdout)
        sys.stderr.write(ran.stderr)
    for stage in found:
        count = f" ({len(stage.jobs)} jobs)" if len(stage.jobs) > 1 else ""
        of_one = f" [{stage.jobs[0]}]" if len(stage.jobs) == 1 and stage.jobs[0] else ""
        print(f"{stage.rule}{of_one}{count}: " + "; ".join(stage.reasons))
    return 0


def configurations_among_targets(arguments: list[str]) -> list[str]:
    """Configuration files that no option takes, so that Snakemake would read them as targets."""
    forgotten, option = [], None
    for argument in arguments:
        if argument.startswith("-"):
            option = None if "=" in argument else argument
            continue
        if option is None and Path(argument).suffix in (".yaml", ".yml"):
            forgotten.append(argument)
        # Every other option is taken to have one value at most; this one has any number.
        if option not in ("--configfile", "--configfiles"):
            option = None
    return forgotten


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
