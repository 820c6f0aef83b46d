"""What the report opens with: whether the model is good, and what to do next."""

from dataclasses import replace

import pytest
import report_artefacts as made
from report_results import results_in

from mlm.corpus.artefacts import WordOverlap
from mlm.evaluation.artefacts import Difference
from mlm.report.headline import answer
from mlm.report.report_inputs import CURVE_COLUMNS


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Of a good model, on whose report there is nothing to remedy."""
    return with_evaluation(results_in(tmp_path_factory.mktemp("good")))


def with_evaluation(results, loss=3.38, right=0.37, **changes):
    (run,) = results.runs
    evaluation = replace(made.evaluation("base", loss, right), **changes)
    return replace(results, runs=[replace(run, evaluation=evaluation)])


def with_curve(results, losses):
    (run,) = results.runs
    rows = [
        dict.fromkeys(CURVE_COLUMNS) | {"step": i, "validation_loss": x}
        for i, x in enumerate(losses, 1)
    ]
    return replace(results, runs=[replace(run, curves=rows)])


def with_shared_words(results, shared, unmeasured=0):
    overlap = WordOverlap(8, 1000, shared, 1, unmeasured, 0)
    test = replace(results.corpus["test"], overlap_with_train=overlap)
    return replace(results, corpus=results.corpus | {"test": test})


def test_a_good_model_is_called_so_and_needs_nothing(results):
    found = answer(results)
    assert found.tone == "better"
    assert found.verdict.startswith(
        "Better than counting neighbours (3.38 against 4.00 nats), 37 %"
    )
    assert len(found.next_steps) == 1 and "finetune" in found.next_steps[0]
    assert answer(with_shared_words(results, 400, unmeasured=1001)) == found


def test_a_lower_loss_with_fewer_right_guesses_is_no_plain_victory(results):
    found = answer(with_evaluation(results, right=0.2))
    assert found.tone == "even" and "but only 20 % of" in found.verdict
    assert found.verdict.endswith("(counting: 29 %).")


@pytest.mark.parametrize(
    ("loss", "tone", "words"),
    [(3.98, "even", "Not shown to be better"), (4.9, "worse", "Worse than counting neighbours")],
)
def test_a_model_that_does_not_beat_counting_is_told_what_to_try(results, loss, tone, words):
    found = answer(with_evaluation(results, loss))
    assert (found.tone, len(found.next_steps)) == (tone, 1) and found.verdict.startswith(words)
    assert "larger model" in found.next_steps[0]


def with_test(results, **changes):
    (run,) = results.runs
    return with_evaluation(results, test=replace(run.evaluation.test, **changes))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            lambda r: with_curve(r, [5.0, 4.0, 3.5, 3.4]),
            "still falling when training ended: train l",
        ),
        (lambda r: with_curve(with_evaluation(r, 4.9), [5.0, 4.0]), "ended: train much longer"),
        (lambda r: with_curve(r, [5.0, 3.4, 3.5]), "rose again after step 2"),
        (
            lambda r: with_evaluation(r, gap_to_train=Difference(0.5, (0.4, 0.6))),
            "remembers its tr",
        ),
        (lambda r: with_test(r, unknown_share=0.031), "3.1 % of the tokens are unknown"),
        (lambda r: with_test(r, num_clusters=8), "has 8 groups (president)"),
        (lambda r: with_evaluation(r, cluster_by="sample"), "text has one group, too"),
        (lambda r: with_shared_words(r, 22), "2.2 % of the test text is in train too"),
    ],
)
def test_each_shortcoming_has_its_remedy(results, changed, words):
    (step,) = answer(changed(results)).next_steps
    assert words in step


def test_what_makes_the_figures_worth_little_comes_first(results):
    falling = with_curve(with_evaluation(results), [5.0, 4.0])
    for shared, first in ((22, "still falling"), (220, "in train too")):
        assert first in answer(with_shared_words(falling, shared)).next_steps[0]


def test_of_several_runs_the_best_is_named(tmp_path):
    runs = {"base": {}, "wide": {"model": {"config": {"hidden_size": 256}}}}
    several = results_in(tmp_path, runs, {"base": 4.9, "wide": 3.38})
    assert answer(several).verdict.startswith("The best of 2 runs, wide, is better than counting")
