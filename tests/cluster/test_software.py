"""Jobs in an image (--sdm apptainer), with a stand-in for apptainer that runs them here."""

import os
import re
import sys

import pytest

from tests.cluster.conftest import write_small_data
from tests.workflow.conftest import ROOT, TINY, copy_of_the_repository, start

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

#: Notes its arguments, and does what follows the image's name on this machine.
STAND_IN = """\
#!/bin/sh
[ "$1" = --version ] && { echo "apptainer version 1.3.4"; exit 0; }
printf '%s\\n' "$*" | head -n 1 >> "$APPTAINER_NOTES"
while [ "${1%.sif}" = "$1" ]; do shift; done
shift
exec "$@"
"""


def test_the_line_of_the_page_runs_jobs_in_the_image(tmp_path):
    page = (ROOT / "docs" / "cluster.md").read_text()
    (line,) = re.findall(r'^container: ".+\.sif"$', page, re.M)
    project = copy_of_the_repository(tmp_path / "project")
    project.write_config(TINY)
    write_small_data(project.path)
    snakefile = project.path / "Snakefile"
    snakefile.write_text(
        snakefile.read_text().replace("\nconfigfile:", f"\n{line}\n\n\nconfigfile:", 1)
    )
    (tmp_path / "apptainer").write_text(STAND_IN)
    (tmp_path / "apptainer").chmod(0o755)
    notes = tmp_path / "notes"
    environment = {
        "PATH": f"{tmp_path}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "APPTAINER_NOTES": str(notes),
    }
    target = "results/manifests/test.json"
    arguments = ("--sdm", "apptainer", "--cores", "2", target)
    start(project, *arguments, environment=environment).finished()
    assert (project.path / target).is_file()
    image = line.split('"')[1]
    in_image = [note for note in notes.read_text().splitlines() if f" {image} " in note]
    # corpus, tokenizer, one shard, its manifest.
    assert len(in_image) == 4
