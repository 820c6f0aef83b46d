"""scripts/fill.py, asked of a training that ran."""

import json
import subprocess
import sys

import pytest

from tests.conftest import users_environment

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def fill(built, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "scripts/fill.py", *arguments, "--configfile", "tiny.yaml"]
    return subprocess.run(
        command, cwd=built.path, env=users_environment(), capture_output=True, text=True
    )


def words(prompt: dict) -> list[str]:
    return [prompt["prompt"], *(answer["token"] for answer in prompt["answers"])]


def scores(prompts: list[dict]) -> list[float]:
    return [answer["score"] for prompt in prompts for answer in prompt["answers"]]


def test_the_answers_are_those_of_the_rule(built):
    rule = json.loads((built.path / "results/runs/base/fill_mask.json").read_text())["prompts"]
    done = fill(built, *(prompt["prompt"] for prompt in rule), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [words(p) for p in found] == [words(p) for p in rule]
    assert scores(found) == pytest.approx(scores(rule), abs=1e-5)


def test_what_cannot_be_asked_is_named(built):
    done = fill(built, "no mask", "We " * 90 + "[MASK].")
    assert done.returncode == 1 and done.stdout == ""
    assert "fill.py: sentences:" in done.stderr
    assert "holds the mask token [MASK] 0 times" in done.stderr
    assert "tokens; the model takes at most 32" in done.stderr
