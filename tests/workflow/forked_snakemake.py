"""Run Snakemake in forks of this process, which imports it once: that takes longer than a plan.

Each line of stdin is a request, whose answer is the exit status.
"""

import json
import os
import sys


def run(snakemake, arguments: list[str], directory: str, environment: dict, log: str) -> int:
    """Run Snakemake in this process; the exit status."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    try:
        snakemake.cli.main(arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)
    return 0


def main() -> None:
    import smart_open  # noqa: F401
    import snakemake.cli
    import yte  # noqa: F401

    # Imports every plugin, and pandas with that of reports.
    snakemake.cli.get_argument_parser()
    # Commands write to what is standard output when they run, and not where Snakemake is imported.
    sys.modules["snakemake.shell"].STDOUT = None
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            status = 1
            try:
                status = run(snakemake, *json.loads(line))
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
