import pytest
import report_artefacts as made

from mlm.foundations.typed_artefacts import as_json
from mlm.report.report_inputs import RunResults
from mlm.report.run_comparison import comparable, seed_groups, standings


def run(name, loss=4.9, interval=0.05, overrides=None, **evaluation) -> RunResults:
    return RunResults(
        name=name,
        overrides=overrides or {},
        curves=[],
        digests={},
        training=made.training(name),
        evaluation=made.evaluation(name, loss, interval, **evaluation),
        fill_mask=made.fill_mask(name),
    )


EVALUATION = as_json(made.evaluation("base"))
SETTINGS, DIGESTS = EVALUATION["settings"], EVALUATION["digests"]


def sums(losses) -> dict:
    return {"loss": losses, "correct": [0] * len(losses), "predictions": [100] * len(losses)}


def test_runs_are_paired_by_group_and_not_compared_by_the_overlap_of_their_intervals():
    """Every group is a little worse: beyond chance, though the groups differ far more."""
    best = run("best", 4.5, group_sums=sums([350.0, 400.0, 450.0, 500.0, 550.0]))
    worse = run("worse", 4.52, group_sums=sums([352.0, 402.0, 452.0, 502.0, 552.0]))
    even = run("even", 4.52, group_sums=sums([380.0, 400.0, 450.0, 500.0, 530.0]))
    rows = standings([best, worse, even])
    assert [(r.run, r.best, r.apart) for r in rows] == [
        ("best", True, None),
        ("worse", False, True),
        ("even", False, False),
    ]
    assert rows[1].interval == pytest.approx((0.02, 0.02))
    assert rows[2].interval[0] < 0 < rows[2].interval[1]
    assert abs(rows[1].difference - 0.02) < 1e-12


@pytest.mark.parametrize(
    "other",
    [
        {"digests": DIGESTS | {"manifest": "another"}},
        {"settings": SETTINGS | {"mlm_probability": 0.2}},
        {"settings": SETTINGS | {"seed": 1}},
        {"settings": SETTINGS | {"bootstrap": {"resamples": 300, "confidence": 0.95}}},
        {"group_sums": sums([1.0] * 7)},
    ],
    ids=["test data", "masks", "seed", "bootstrap", "groups"],
)
def test_runs_that_were_asked_other_questions_are_not_paired(other):
    (_, row) = standings([run("best", 4.5), run("other", 4.9, **other)])
    assert row.interval is None and row.apart is None
    assert abs(row.difference - 0.4) < 1e-12


def test_runs_that_differ_in_the_seed_alone_are_put_together():
    faster = {"pretraining": {"seed": 1, "optimizer": {"learning_rate": 0.01}}}
    runs = [
        run("base", 4.0),
        run("seed-1", 5.0, overrides={"pretraining": {"seed": 1}}),
        run("wide", 3.0, overrides={"model": {"config": {"hidden_size": 256}}}),
        run("faster", 3.0, overrides=faster),
    ]
    (group,) = seed_groups(runs, seed=7)
    assert group.runs == ("base", "seed-1") and group.seeds == (7, 1)
    assert group.loss_mean == 4.5 and abs(group.loss_spread - 0.5**0.5) < 1e-12


def test_other_masks_or_other_text_are_not_compared_in_silence():
    other_seed = run("b", settings=SETTINGS | {"seed": 1})
    other_text = run("c", digests=DIGESTS | {"manifest": "another"})
    assert comparable([run("a"), run("b")]) == []
    (reason,) = comparable([run("a"), other_seed])
    assert "different masks (mlm_probability, mask_token, random_token, seed)" in reason
    assert "different test data" in comparable([run("a"), other_text])[0]
