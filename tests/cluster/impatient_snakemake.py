"""Snakemake as `python -m snakemake` starts it, but asking every second how jobs on a cluster do.

Slurm's executor waits ten seconds longer after each time that no job has ended, up to three
minutes, and no option changes that: most of a test's time would be such pauses.
"""

import asyncio
import sys

from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor


async def sleep(self) -> None:
    """The pause between two questions."""
    await asyncio.sleep(1)


if __name__ == "__main__":
    RemoteExecutor.sleep = sleep
    main(sys.argv[1:])
