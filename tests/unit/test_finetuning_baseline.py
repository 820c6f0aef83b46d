"""The counting baseline, the scores, and the paired intervals."""

import numpy as np
import pytest

from mlm.finetuning.paired_differences import Bootstrap, Comparison
from mlm.finetuning.ridge_baseline import TfIdf, ridge_predictions, terms
from mlm.finetuning.scores import macro_f1, score
from mlm.finetuning.words import finetuning_verdicts

HOW = Bootstrap(resamples=500, confidence=0.95, seed=0)


def test_terms_are_words_and_pairs_in_lower_case():
    assert terms("We must, we MUST.") == {
        **{"we": 2, "must": 2, ",": 1, ".": 1},
        **{"we must": 2, "must ,": 1, ", we": 1, "must .": 1},
    }


def test_vectors_have_length_one_and_leave_out_terms_of_one_text():
    counted = [terms("a b c"), terms("a b d"), terms("only")]
    vectors = TfIdf(counted).vectors(counted).toarray()
    assert vectors.shape == (3, 3)  # a, b, "a b"
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 0])


def test_ridge_equals_the_closed_form_in_the_terms():
    texts = ["a b", "a c", "b c", "a a b", "c c b"]
    counted = [terms(t) for t in texts]
    targets = np.array([[0.0], [1.0], [2.0], [0.5], [3.0]])
    x = TfIdf(counted).vectors(counted).toarray()
    centred = targets - targets.mean()
    weights = np.linalg.solve(x.T @ x + 0.7 * np.eye(x.shape[1]), x.T @ centred)
    found = ridge_predictions(counted, targets, counted, penalty=0.7)
    assert found == pytest.approx(x @ weights + targets.mean())


def test_scores_are_those_of_the_textbook():
    logits = np.array([[1.0], [3.0]])
    assert score("regression", logits, np.array([0.0, 1.0])).score == pytest.approx(2.5**0.5)
    logits = np.array([[2.0, 0.0], [0.0, 1.0]])
    found = score("classification", logits, np.array([0, 0]))
    assert found.score == 0.5
    expected = (np.log1p(np.exp(-2)) + np.log1p(np.exp(1))) / 2
    assert found.loss == pytest.approx(expected)
    assert macro_f1(["a", "a", "b"], ["a", "b", "b"]) == pytest.approx(2 / 3)


def test_an_interval_holds_a_difference_that_is_there_and_0_where_there_is_none():
    rng = np.random.default_rng(0)
    units = np.repeat([f"g{i}" for i in range(60)], 5)
    hard = rng.normal(0, 1, 300) ** 2
    figures = {"good": 0.5 * hard, "bad": hard, "twin": hard[::-1]}
    found = Comparison(figures, units, rooted=True, how=HOW)
    gain = found.difference("good", "bad")
    assert gain.score == pytest.approx((0.5**0.5 - 1) * np.sqrt(hard.mean()))
    assert gain.interval[0] < gain.score < gain.interval[1] < 0
    low, high = found.difference("bad", "twin").interval
    assert low < 0 < high
    assert found.of("bad").interval[0] < np.sqrt(hard.mean()) < found.of("bad").interval[1]


def test_groups_are_resampled_as_a_whole():
    """Five copies of the same error in a group are one observation, not five."""
    errors = np.random.default_rng(1).normal(0, 1, 50) ** 2
    alone = Comparison({"m": errors}, [f"g{i}" for i in range(50)], True, HOW).of("m")
    copied = Comparison(
        {"m": np.repeat(errors, 5)}, np.repeat([f"g{i}" for i in range(50)], 5), True, HOW
    ).of("m")
    assert copied.interval == pytest.approx(alone.interval)


def test_verdicts_say_what_the_interval_allows():
    def part(score, low, high):
        return {"score": score, "interval": [low, high]}

    metrics = {
        "score": "rmse",
        "confidence": 0.95,
        "differences": [
            {"model": "pretrained", "beside": "random", "all": part(-0.1, -0.2, -0.05)},
            {"model": "pretrained", "beside": "tfidf_ridge", "all": part(0.1, 0.05, 0.2)},
            {"model": "random", "beside": "tfidf_ridge", "all": part(-0.1, -0.2, 0.05)},
        ],
    }
    better, worse, even = finetuning_verdicts(metrics)
    assert " is better than the same network from random weights" in better
    assert " is worse than TF-IDF" in worse
    assert " is not told apart from TF-IDF" in even
    assert "is worse" in finetuning_verdicts(metrics | {"score": "accuracy"})[0]
