"""A run without some documents is the run that was never shown them."""

import json
import shutil
from types import SimpleNamespace

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
from tests.conftest import refusal

from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.artefacts import HolesOfRun
from mlm.samples.manifests import Manifest
from mlm.training.branching import branch_of

#: All states of the parent are kept: after steps 5, 10, 15, 20 and 24.
BASE = {"steps": 24, "checkpoint": {"keep": None}}
#: A part of one sample, the end of one with the beginning of the next, and a whole one.
HOLES = [(3, 4, 9), (41, 10, LENGTH), (42, 0, 6), (150, 0, LENGTH)]


def first_sample(root, step: int) -> int:
    run, _ = small_run(root, {"pretraining": BASE}, with_model=False)
    order = run.order_from(0)
    return next(s for s in range(200) if order.first_update(run.train, [s]) == step)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_going_on_from_before_the_first_use_is_never_having_been_shown_it(root, engine):
    first, base = 11, {"pretraining": BASE | {"engine": engine}}
    holes = [(first_sample(root, first), 2, 7), (first_sample(root, 13), 0, 9)]
    holes = sorted([*holes, (first_sample(root, 15), 0, LENGTH)])
    shown, on, scratch = (f"{name}-{engine}" for name in ("shown", "going-on", "scratch"))
    for name in (on, scratch):
        write_holes(root, name, holes)
    start = {"pretraining": {"continue_from": {"run": shown, "step": 10}}}
    continuing = base | {"runs": {"base": start, shown: {}}, "parent": (shown, base)}
    assert run_child(root, shown, base) == 0
    assert run_child(root, on, continuing) == 0
    assert f"continues run {shown}\n{on}: resumes from step 10 of 24" in told(root, on)
    assert run_child(root, scratch, base) == 0
    assert result(root, on) == result(root, scratch)
    (weights, rows), (other_weights, without) = (result(root, name) for name in (shown, scratch))
    assert weights != other_weights
    # Up to there the log is that of the run that was shown it, and not after.
    same = [a == b for a, b in zip(rows, without, strict=True)]
    assert same == [int(row["step"]) < first for row in rows]
    said = json.loads((root / "runs" / scratch / "training.json").read_text())["without"]
    assert (said["first_step"], said["samples"], said["what"]) == (first, 3, ["document:0"])
    assert said["tokens"] == sum(end - begin for _, begin, end in holes)
    card = (root / "runs" / scratch / "model" / "README.md").read_text()
    assert f"({said['tokens']} tokens), which step {first} would have been the first to use" in card
    assert "without" not in json.loads((root / "runs" / shown / "training.json").read_text())


@pytest.mark.slow
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
        assert run_child(place, "holed", {"pretraining": BASE}) == 0
    assert result(root, "holed") == result(other, "holed")


@pytest.mark.parametrize(
    "used, embeddings, step, words",
    [
        (11, "random", 10, None),
        (10, "random", 10, "is first used in step 10. States there that are early enough: 5. Con"),
        (3, "random", 5, "States there that are early enough: none"),
        (11, "cooccurrence", 5, "the word embeddings begin at counts of all the others"),
    ],
)
def test_a_state_that_depends_on_it_is_refused_with_the_last_that_does_not(
    root, used, embeddings, step, words
):
    """That after step 10 does, where step 10 uses it, and that after step 5 does not."""
    write_holes(root, "small", [(first_sample(root, used), 2, 7)])
    settings = {"pretraining": BASE, "model": {"initialisation": {"embeddings": embeddings}}}
    without, _ = small_run(root, settings)
    (root / "holes" / "small.json").unlink()
    shown, _ = small_run(root, settings)
    states = SimpleNamespace(steps=lambda: [24, 20, 15, 10, 5])
    if words is None:
        assert branch_of(without, shown, states, step).step == step
        return
    assert words in refusal(branch_of, without, shown, states, step)


def test_holes_in_other_samples_are_refused(root):
    write_holes(root, "small", HOLES)
    file = root / "holes" / "small.json"
    HolesOfRun(**HolesOfRun.read(file).__dict__ | {"manifest": "0" * 64}).write(file)
    with pytest.raises(MlmError, match=r"small.json: its holes are in other samples than those of"):
        small_run(root)
    file.unlink()
