"""The diffs of docs/extending.md apply to this tree, are small, and do what the page says."""

import json
import os
import re
import sys

import pytest

from tests.conftest import ended, users_environment

from .conftest import ROOT, copy_of_the_repository

PAGE = ROOT / "docs" / "extending.md"
#: A section's word, its diff and its commands.
FOUND = re.findall(
    r"^## An? (\w+)\n.*?^```diff\n(.*?)^```$.*?^```bash\n(.*?)^```$", PAGE.read_text(), re.M | re.S
)
DIFFS, COMMANDS = ({name: parts[i] for name, *parts in FOUND} for i in (0, 1))
SECTIONS = ("metric", "optimizer", "source", "family")


def applied(place, section):
    """A copy of the repository with the diff of `section`."""
    place.mkdir()
    copy_of_the_repository(place)
    # The copy is no repository; git must not take one above it.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(place.parent)}
    how = {"cwd": place, "env": environment, "input": DIFFS[section]}
    ran = ended("git", "apply", "--verbose", "-", status=None, **how)
    assert ran.returncode == 0, (
        f"{PAGE.name}: the diff of the section on a {section} no longer applies. Make its "
        "edits by hand in a clean checkout, put the output of `git diff -U2` in its place, "
        f"and undo the edits.\n{ran.stderr}"
    )
    assert "Skipped" not in ran.stderr, ran.stderr


@pytest.mark.parametrize("section", SECTIONS)
def test_a_diff_of_the_page_applies_to_few_files(section, tmp_path):
    assert tuple(DIFFS) == SECTIONS
    files = re.findall(r"^\+\+\+ b/(.+)$", DIFFS[section], re.M)
    assert 1 <= len(files) <= 3 and any(name.startswith("scripts/") for name in files)
    applied(place := tmp_path / "copy", section)
    ended(sys.executable, "scripts/generate_config.py", cwd=place, env=users_environment())


@pytest.mark.slow
@pytest.mark.workflow
@pytest.mark.parametrize("section", SECTIONS)
def test_the_commands_of_the_page_end_well(section, tmp_path):
    applied(place := tmp_path / "copy", section)
    (place / ".venv").symlink_to(sys.prefix)
    shell = ("bash", "-euo", "pipefail", "-c", COMMANDS[section])
    ended(*shell, cwd=place, env=users_environment())
    if section == "metric":
        evaluated = json.loads((place / "results/runs/base/evaluation.json").read_text())
        figure = evaluated["test"]["mean_reciprocal_rank"]
        page = (place / "results/report.html").read_text()
        assert 0 < figure < 1 and f"<td>{figure:.3f}</td>" in page
        assert 'href="#term-reciprocal_rank">Reciprocal rank</a></th>' in page
