"""The changelog names what a configuration of version 0.1 has to be changed in."""

import re
from pathlib import Path

from mlm.config.configuration import Configuration
from mlm.config.fields import Section, taken_apart

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")


def former_names(section: type[Section], place: str = "") -> dict[str, str]:
    """The present path of each key that the configuration refuses under a former one."""
    found = {f"{place}{old}": f"{place}{new}" for old, new in section.renamed.items()}
    for name, hint in section.hints().items():
        bare = taken_apart(hint)[0]
        if isinstance(bare, type) and issubclass(bare, Section):
            if bare.once_a_value:
                found[f"{place}{name}"] = f"{place}{name}.{bare.once_a_value}"
            found |= former_names(bare, f"{place}{name}.")
    return found


def test_every_key_that_has_another_name_now_is_in_the_table():
    part = CHANGELOG.split("### From 0.1", 1)[1].split("\n### ")[0]
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| `([a-z_.]+)` \|$", part, re.M))
    assert rows == former_names(Configuration)
