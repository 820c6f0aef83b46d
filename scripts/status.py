"""Say what `snakemake` would do now and why, without doing it.

    .venv/bin/python scripts/status.py [--configfile my.yaml] [any option of snakemake]

Takes the options and targets that would be given to snakemake.
"""

import subprocess
import sys
from pathlib import Path

from mlm.config.resolution import resolve
from mlm.rerun_reasons import planned_jobs, stages

BASE = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    """Print a line for each stage that would run; the status is snakemake's own."""
    cores = [] if {"--cores", "-c"} & set(arguments) else ["--cores", "1"]
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(BASE / "Snakefile")]
    ran = subprocess.run(
        [*command, "--dry-run", *cores, *arguments], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        sys.stderr.write(ran.stdout + ran.stderr)
        return ran.returncode
    found = stages(planned_jobs(ran.stdout + ran.stderr), resolve({}))
    if not found:
        print("Nothing to be done: every result is up to date.")
    for stage in found:
        count = f" ({len(stage.jobs)} jobs)" if len(stage.jobs) > 1 else ""
        of_one = f" [{stage.jobs[0]}]" if len(stage.jobs) == 1 and stage.jobs[0] else ""
        print(f"{stage.rule}{of_one}{count}: " + "; ".join(stage.reasons))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
