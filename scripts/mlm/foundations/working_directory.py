"""The directory in which the workflow runs: whether results can be written there, and its disk."""

import os
import shlex
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from mlm.foundations.errors import MlmError

#: Below this nothing is begun. The embedded corpus alone comes to about 50 MB of results.
LEAST_FREE_BYTES = 100_000_000


def check_place(directory: Path) -> None:
    """Raise MlmError if results cannot be written below `directory`, or hardly fit.

    Writes nothing itself, so that a dry run leaves no trace.
    """
    elsewhere = "or run in another directory (snakemake --directory)"
    for name in ("results", "logs", ".snakemake"):
        place = directory / name
        if place.is_symlink() and not place.exists():
            raise MlmError(
                f"{place} is a link to {place.readlink()}, where nothing is. Make that directory "
                f"(mkdir -p {place.resolve()}), or remove the link"
            )
        if place.exists() and not place.is_dir():
            raise MlmError(f"{place} is a file; a directory is expected there. Move it away")
        holder = place if place.exists() else directory
        if not os.access(holder, os.W_OK | os.X_OK):
            raise MlmError(
                f"{holder} cannot be written to, so {name}/ cannot be filled. Give this user the "
                f"right to write there, {elsewhere}"
            )
    if (free := shutil.disk_usage(directory).free) < LEAST_FREE_BYTES:
        raise MlmError(
            f"{directory} has only {free / 1e6:.0f} MB of free disk space; at least "
            f"{LEAST_FREE_BYTES / 1e6:.0f} MB are needed to start. Free some space, {elsewhere}"
        )


def check_dates(paths: Iterable[str]) -> None:
    """Raise MlmError if some of the files `paths`, or links to them, are dated in the future.

    Only content counts, yet Snakemake deletes what a job has made if an input's date is later.
    """
    dates = {
        # Absolute: Snakemake may work in another directory than the user.
        os.path.abspath(path): max(os.stat(path).st_mtime, os.lstat(path).st_mtime)
        for path in sorted(filter(os.path.exists, set(paths)))
    }
    if ahead := [path for path, date in dates.items() if date > time.time() + 1]:
        named = shlex.join(ahead[:10])
        of_links = f" && touch -h {named}" if any(map(os.path.islink, ahead)) else ""
        others = f" and {len(ahead) - 10} more files" if len(ahead) > 10 else ""
        raise MlmError(
            f"{ahead[0]} is dated in the future ({time.ctime(dates[ahead[0]])}), and Snakemake "
            "would delete what is made from it. Give it the date of today: "
            f"touch {named}{of_links}{others}"
        )
