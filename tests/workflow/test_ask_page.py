"""The example of docs/ask.md, asked of a training that ran."""

import json
import shlex

import pytest

from .conftest import ROOT

pytestmark = pytest.mark.workflow

#: A sentence of the small workflow's corpus.
SENTENCE = "I therefore earnestly recommend the subject to your serious consideration"


def asked(project, *more: str, sentence: str = SENTENCE) -> str:
    """What the command of the page answers, about the small workflow."""
    page = (ROOT / "docs" / "ask.md").read_text(encoding="utf-8")
    program, script, _, *arguments = shlex.split(
        page.split("```console\n$ ")[1].split("\n")[0].replace("presets/tiny.yaml", "tiny.yaml")
    )
    assert program == ".venv/bin/python"
    ran = project.python(script, sentence, *arguments, *more)
    assert ran.stderr == ""
    return ran.stdout


def test_the_example_of_the_page_is_answered(built):
    answer = json.loads(asked(built, "--json"))
    assert answer["training"]["state"] == "finished" and answer["occurrences"] == 1
    many = json.loads(asked(built, "--json", "--most", "100000", sentence="of the"))
    uses = [u for p in many["passages"] for part in p["parts"] for u in part["uses"]]
    assert any(use["reached"] and use["masked"] for use in uses)
