"""A run without some documents is the run that was never shown them."""

import json
import re
import shutil

import pytest
from small_run import (
    LENGTH,
    VOCABULARY,
    result,
    run_child,
    small_run,
    small_samples,
    told,
    write_holes,
    write_split,
)

from mlm.foundations.digests import file_sha256
from mlm.samples.artefacts import HolesOfRun
from mlm.samples.manifests import Manifest

pytestmark = pytest.mark.slow

#: All states of the parent are kept: after steps 5, 10, 15, 20 and 24.
BASE = {"pretraining": {"steps": 24, "checkpoint": {"keep": None}}}
#: A part of one sample, the end of one with the beginning of the next, and a whole one.
HOLES = [(3, 4, 9), (41, 10, LENGTH), (42, 0, 6), (150, 0, LENGTH)]


def steps_of(root, samples) -> dict[int, int]:
    """By sample, the first step that uses it."""
    run, _ = small_run(root, BASE, with_model=False)
    order = run.order_from(0)
    return {s: step for s in samples if (step := order.first_update(run.train, [s]))}


def first_sample(root, step: int) -> int:
    """A sample that no step uses before `step`."""
    return next(s for s, first in steps_of(root, range(200)).items() if first == step)


def laid_over(*overrides) -> dict:
    merged = {}
    for one in overrides:
        merged["pretraining"] = merged.get("pretraining", {}) | one["pretraining"]
    return merged


def continuing(step: int, *overrides) -> dict:
    """The run of `overrides` from the state of `shown` after `step` updates."""
    own = laid_over(BASE, *overrides)
    start = {"pretraining": {"continue_from": {"run": "shown", "step": step}}}
    return own | {"runs": {"base": start, "shown": {}}, "parent": ("shown", own)}


@pytest.fixture(scope="module")
def root(root):
    assert run_child(root, "shown", BASE) == 0
    return root


@pytest.fixture(scope="module")
def late(root):
    """Holes in samples that steps 11, 13 and 15 use first, and the first of these steps."""
    holes = [(first_sample(root, 11), 2, 7), (first_sample(root, 13), 0, 9)]
    return sorted([*holes, (first_sample(root, 15), 0, LENGTH)]), 11


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_going_on_from_before_the_first_use_is_never_having_been_shown_it(root, late, engine):
    (holes, first), own = late, {"pretraining": {"engine": engine}}
    if engine == "jax":
        place = root.with_name("in-jax")
        shutil.copytree(root, place, ignore=shutil.ignore_patterns("state", "runs"))
        root = place
        assert run_child(root, "shown", laid_over(BASE, own)) == 0
    for name in ("going-on", "scratch"):
        write_holes(root, name, holes)
    assert run_child(root, "going-on", continuing(10, own)) == 0
    assert "continues run shown\ngoing-on: resumes from step 10 of 24" in told(root, "going-on")
    assert run_child(root, "scratch", laid_over(BASE, own)) == 0
    assert result(root, "going-on") == result(root, "scratch")
    (weights, rows), (others, without) = (result(root, name) for name in ("shown", "scratch"))
    assert weights != others
    # Up to there the log is that of the run that was shown it, and not after.
    same = [a == b for a, b in zip(rows, without, strict=True)]
    assert same == [int(row["step"]) < first for row in rows]
    said = json.loads((root / "runs" / "scratch" / "training.json").read_text())["without"]
    assert (said["first_step"], said["samples"], said["what"]) == (first, 3, ["document:0"])
    assert said["tokens"] == sum(end - begin for _, begin, end in holes)
    card = (root / "runs" / "scratch" / "model" / "README.md").read_text()
    assert f"({said['tokens']} tokens), which step {first} would have been the first to use" in card
    assert "without" not in json.loads((root / "runs" / "shown" / "training.json").read_text())


def test_what_stood_in_a_hole_changes_no_weight(root, tmp_path):
    """The same training on a split that holds other tokens there, special ones aside."""
    other = tmp_path / "other"
    shutil.copytree(root, other, ignore=shutil.ignore_patterns("state", "runs", "holes"))
    ids = small_samples(200)
    for sample, begin, end in HOLES:
        part = ids[sample, begin:end]
        part[part > 4] = 5 + (part[part > 4] + 17) % (VOCABULARY - 5)
    counts = tuple(shard.num_samples for shard in Manifest.read(root / "train.json").shards)
    tokenizer = file_sha256(root / "tokenizer" / "tokenizer.json")
    manifest = write_split(
        other / "shards", "train", counts, tokenizer_sha256=tokenizer, samples=ids
    )
    manifest.write(other / "train.json")
    for place in (root, other):
        write_holes(place, "holed", HOLES)
        assert run_child(place, "holed", BASE) == 0
    assert result(root, "holed") == result(other, "holed")


def test_a_state_that_depends_on_it_is_refused_with_the_last_that_does_not(root):
    """That after step 10 does, where step 10 uses it, and that after step 5 does not."""
    holes = [(first_sample(root, 10), 2, 7)]
    write_holes(root, "late", holes)
    assert run_child(root, "late", continuing(10)) == 3
    assert (
        "what differs is first used in step 10. States there that are early enough: 5. Continue "
        "from one of them"
    ) in told(root, "late")
    write_holes(root, "absent", holes)
    assert run_child(root, "absent", continuing(7)) == 3
    assert "no whole state after step 7 of run 'shown' (states there: 5" in told(root, "absent")
    write_holes(root, "early", [(first_sample(root, 3), 1, 3)])
    assert run_child(root, "early", continuing(5)) == 3
    assert "States there that are early enough: none" in told(root, "early")


def test_counts_are_made_anew_without_it_so_that_no_state_serves(root):
    """In the default configuration the word embeddings begin at counts of all documents."""
    counted = {"model": {"initialisation": {"embeddings": "cooccurrence"}}}
    few = {"pretraining": {"steps": 6, "checkpoint": {"keep": None}}}
    write_holes(root, "counted-without", HOLES)
    for name in ("counted", "counted-without"):
        assert run_child(root, name, counted | few) == 0
    first = [result(root, name)[1][0]["loss"] for name in ("counted", "counted-without")]
    assert first[0] != first[1]
    start = {"pretraining": few["pretraining"] | {"continue_from": {"run": "counted", "step": 5}}}
    write_holes(root, "counted-on", HOLES)
    own = counted | few
    child = own | {"runs": {"base": start, "counted": {}}, "parent": ("counted", own)}
    assert run_child(root, "counted-on", child) == 3
    assert "the word embeddings begin at counts of all the others" in told(root, "counted-on")


def test_holes_in_other_samples_are_refused(root):
    write_holes(root, "others", HOLES)
    file = root / "holes" / "others.json"
    content = HolesOfRun.read(file).__dict__ | {"manifest": "0" * 64}
    HolesOfRun(**content).write(file)
    assert run_child(root, "others", BASE) == 3
    assert re.search(
        r"others.json: its holes are in other samples than those of", told(root, "others")
    )
