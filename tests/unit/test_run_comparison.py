import math
from dataclasses import replace

import pytest
import report_artefacts as made
from tests.conftest import refusal

from mlm.config.overlays import files_of_other_runs, resolve
from mlm.foundations.artefacts import as_json
from mlm.report.report_inputs import Results, RunResults, read_other_run
from mlm.report.run_comparison import best_run, differing_settings, seed_groups, standings

CONFIG = resolve({}).shown()


def run(name, loss=4.9, overrides=None, **evaluation) -> RunResults:
    seed = (overrides or {}).get("pretraining", {}).get("seed", 0)
    return RunResults(
        name=name,
        digests={},
        training=made.training(name, loss, seed=seed),
        evaluation=made.evaluation(name, loss, **evaluation),
        overrides=overrides or {},
        curves=[],
        fill_mask=made.fill_mask(name),
    )


def results(*runs: RunResults, also=()) -> Results:
    return Results("", CONFIG, "", {}, made.tokenizer_stats(), {}, list(runs), {}, list(also))


EVALUATION = as_json(made.evaluation("base"))
SETTINGS, DIGESTS = EVALUATION["settings"], EVALUATION["digests"]


def sums(losses) -> dict:
    return {"loss": losses, "correct": [0] * len(losses), "predictions": [100] * len(losses)}


def test_runs_are_paired_by_group_and_not_compared_by_the_overlap_of_their_intervals():
    """Every group is a little worse: beyond chance, though the groups differ far more."""
    best = run("best", 4.5, cluster_sums=sums([350.0, 400.0, 450.0, 500.0, 550.0]))
    worse = run("worse", 4.52, cluster_sums=sums([352.0, 402.0, 452.0, 502.0, 552.0]))
    even = run("even", 4.52, cluster_sums=sums([380.0, 400.0, 450.0, 500.0, 530.0]))
    rows = standings(results(best, worse, even))
    tones = {row.run: row.difference and row.difference.tone() for row in rows}
    assert tones == {"best": None, "worse": "worse", "even": "even"}
    in_bits = 0.02 / math.log(2) / 4.6
    assert rows[1].difference.interval == pytest.approx((in_bits, in_bits))
    assert rows[1].difference.value == pytest.approx(in_bits)


def test_validation_alone_names_the_best_whatever_test_says():
    better, worse = run("better", 4.9), run("worse", 4.5)
    final = replace(better.training.final, validation_loss=4.2)
    better = replace(better, training=replace(better.training, final=final))
    assert best_run(results(worse, better)).name == "better"
    difference = standings(results(worse, better))[0].difference
    assert difference.value == pytest.approx(-0.4 / math.log(2) / 4.6)


def test_settings_that_differ_are_those_of_each_run_as_it_is_resolved():
    runs = [
        run("a", overrides={"pretraining": {"seed": 1, "steps": 1400}}),
        run("b", overrides={"pretraining": {"seed": 2, "epochs": 3}}),
        run("c", overrides={"pretraining": {"steps": 9, "validation": {"samples": 9}}}),
    ]
    assert differing_settings(results(*runs)) == {
        "pretraining.epochs": [None, 3, None],
        "pretraining.seed": [1, 2, 0],
        "pretraining.steps": [1400, None, 9],
        "pretraining.validation.samples": [2000, 2000, 9],
    }


def test_runs_that_differ_in_the_seed_alone_are_put_together():
    faster = {"pretraining": {"seed": 1, "optimizer": {"learning_rate": 0.01}}}
    runs = [
        run("base", 4.0),
        run("seed-1", 5.0, overrides={"pretraining": {"seed": 1}}),
        run("wide", 3.0, overrides={"model": {"config": {"hidden_size": 256}}}),
        run("faster", 3.0, overrides=faster),
    ]
    (group,) = seed_groups(results(*runs))
    assert group.runs == ("base", "seed-1") and group.seeds == (0, 1)
    assert group.loss_mean == 4.5 and abs(group.loss_spread - 0.5**0.5) < 1e-12


TEXT = DIGESTS | {"text": "the held-out text"}
#: Of a vocabulary with half as many tokens, twice as hard: as many bits but in the last group,
#: which has a hidden token in one of the two vocabularies alone.
FINE = {"tokens": [50, 60, 70, 80, 9], "characters": [200, 240, 280, 320, 30]}
COARSE = FINE | {"tokens": [25, 30, 35, 40, 5]}
HERE = sums([200.0, 210.0, 220.0, 230.0, 50.0]) | FINE
THERE = sums([440.0, 462.0, 484.0, 506.0, 0.0]) | COARSE | {"predictions": [100] * 4 + [0]}


def beside(here=HERE, **other):
    """How a run of another directory stands to the one here, whose sums are `here`."""
    here = run("base", digests=TEXT, cluster_sums=here)
    made_there = {"digests": TEXT | {"manifest": "x"}, "cluster_sums": THERE} | other
    return standings(results(here, also=[run("there", **made_there)]))[1]


def test_runs_of_two_vocabularies_are_paired_in_bits_by_group():
    """Each group needs a tenth more bits."""
    standing = beside()
    assert standing.unpaired is None and standing.difference.tone() == "worse"
    low, high = standing.difference.interval
    assert low < 0.1 * 2.15 / math.log(2) / 4 < high and low < standing.difference.value < high


@pytest.mark.parametrize(
    "other, reason",
    [
        ({"digests": TEXT | {"text": "f" * 64}}, "held-out documents differ: sha256 ffffffffffff…"),
        ({"settings": SETTINGS | {"mlm_probability": 0.2}}, "evaluation.mlm_probability differs"),
        ({"settings": SETTINGS | {"seed": 1}}, "evaluation.seed differs: 1 and 0"),
        ({"digests": TEXT, "cluster_sums": sums([1.0] * 7)}, "evaluation.max_tokens"),
        ({"cluster_sums": sums([1.0] * 5)}, "compare by groups of text"),
        ({"here": sums([1.0] * 7)}, "compare by groups of text"),
        ({"cluster_sums": {k: v[1:] for k, v in THERE.items()}}, "compare by groups of text"),
    ],
)
def test_why_two_runs_do_not_compare_is_said_by_name(other, reason):
    standing = beside(**other)
    assert standing.difference is None and reason in standing.unpaired


def test_every_directory_without_results_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made.write_run(tmp_path / "other", "base")
    also = {"a": "nowhere", "b": "other", "c": "other/results/runs/base"}
    message = refusal(files_of_other_runs, also)
    named = [f"report.also.{name}: {place} lacks" in message for name, place in also.items()]
    assert named == [True, True, False]


def test_files_of_two_trainings_are_no_run_of_another_directory(tmp_path):
    files = made.write_run(tmp_path, "base")
    other = made.training("base")
    digests = replace(other.digests, model=made.sha("another model"))
    replace(other, digests=digests).write(files["training"])
    message = refusal(read_other_run, "there", str(tmp_path / "results/runs/base"))
    named = ("report.also.there", files["training"], files["evaluation"])
    assert all(name in message for name in named)
