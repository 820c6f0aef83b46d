import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from tests.conftest import ended

from mlm.foundations.environment import PACKAGES

ROOT = Path(__file__).parents[2]


def rules():
    for file in sorted((ROOT / "rules").glob("*.smk")):
        # A rule starts at the margin, or one level in below an `if`.
        parts = re.split(r"^ *rule (\w+):\n", file.read_text(), flags=re.M)
        yield from zip(parts[1::2], parts[2::2], strict=True)


WITH_SCRIPT = {name: body for name, body in rules() if "script:" in body}


@pytest.mark.parametrize("profile", ["gke", "tpu-vm"])
def test_a_profile_gives_chips_to_every_rule_that_computes_on_them(profile):
    opens = ("accelerator=settings", "training=lambda w: TRAININGS[w.run].as_param")
    computing = {name for name, body in WITH_SCRIPT.items() if any(o in body for o in opens)}
    texts = "".join(file.read_text() for file in (ROOT / "rules").glob("*.smk"))
    also = re.findall(r"^ *use rule (\w+) as (\w+) with", texts, re.M)
    computing |= {new for old, new in also if old in computing}
    assert len(computing) == 5
    settings = yaml.safe_load((ROOT / "profiles" / profile / "config.yaml").read_text())
    given = {rule for rule, named in settings["set-resources"].items() if "tpu" in str(named)}
    assert given == computing


def packages_below(name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """A package and all that it depends on, without extras."""
    if name in seen:
        return seen
    seen |= {name}
    for line in metadata.requires(name) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            seen = packages_below(requirement.name.lower().replace("_", "-"), seen)
    return seen


def test_rules_import_nothing_that_only_jobs_need():
    """Snakemake's own environment suffices for a plan."""
    texts = [
        file.read_text() for file in sorted([*(ROOT / "rules").glob("*.smk"), ROOT / "Snakefile"])
    ]
    found = re.findall(r"^ *(from mlm\.\S+ import (?:\([^)]*\)|.*))", "\n".join(texts), re.M)
    here = packages_below("snakemake")
    absent = [name.replace("-", "_") for name in PACKAGES if name not in here]
    hidden = f"import sys; sys.modules.update(dict.fromkeys({absent}))"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    ended(sys.executable, "-c", "\n".join([hidden, *found]), env=environment)
