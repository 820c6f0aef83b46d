"""What the section `publish` may say: names, runs and places, all problems at once."""

import pytest

from mlm.config.overlays import resolve
from mlm.foundations.errors import ConfigError

RUNS = {"base": {}, "wide": {"pretraining": {"seed": 1}}}


def problems(publish: dict, **others) -> list[str]:
    try:
        resolve({"publish": publish, "runs": RUNS} | others)
    except ConfigError as error:
        return error.problems
    return []


def test_nothing_is_published_by_default_and_what_is_published_is_private():
    section = resolve({}).publish
    assert [section.tokenizer, section.model] == [None] * 2
    assert section.private is True and section.runs_of(RUNS) == []


def test_a_name_is_one_that_the_hub_takes():
    for name in ("me/A-b_c.9", "my-lab/x", "me/" + "a" * 93):
        assert problems({"tokenizer": name}) == []
    for name in ("a", "me/a/b", "me/é", "me/a--b", "me/-a", "me/a.git", "me/" + "a" * 94):
        assert problems({"tokenizer": name})[0].startswith("publish.tokenizer: "), name


def test_every_run_has_a_repository_of_its_own():
    assert problems({"model": "me/model", "runs": ["wide"]}) == []
    assert problems({"model": "me/model-{run}"}) == []
    section = resolve({"publish": {"model": "me/{run}", "runs": ["wide"]}, "runs": RUNS}).publish
    assert section.runs_of(RUNS) == ["wide"] and section.of_model("wide").model == "me/wide"


@pytest.mark.parametrize(
    "publish, others, words",
    [
        ({"model": "me/model"}, {}, "{run}"),
        ({"model": "me/{run}", "tokenizer": "me/wide"}, {}, "me/wide"),
        ({"model": "me/{run}", "runs": ["bse"]}, {}, "publish.runs"),
        ({"token": "hf_x"}, {}, "publish.token"),
    ],
)
def test_contradictions_are_told(publish, others, words):
    found = problems(publish, **others)
    assert len(found) == 1 and words in found[0]
