"""Draw results/live.html, for the process that trains: live_page.py SNAPSHOT PAGE."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # Before the imports, which are most of the work: the training goes first.
    os.nice(19)
    import job_adapter  # noqa: F401  (the library's path)
    from mlm.report.live_page import write_live_page

    write_live_page(Path(sys.argv[1]), Path(sys.argv[2]))
