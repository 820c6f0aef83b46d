import json
from dataclasses import replace

import numpy as np
import pytest

from mlm.finetuning.artefacts import Example, read_predictions, texts_of, write_examples
from mlm.finetuning.counting_baselines import (
    PENALTIES,
    best_penalty,
    ridge,
    similarities,
    term_counts,
    tf_idf,
    word_terms,
    write_baseline,
)
from mlm.finetuning.finetuning_metrics import METRICS, metric_of
from mlm.finetuning.fold_training import mean_loss
from mlm.finetuning.score_comparison import Comparison, ScoreDifference, macro_f1, verdict_on

TEXTS = ["a b", "a c", "b c", "a a b", "c c b", "a b c", "b b a", "c a c"]
TARGETS = np.array([[0.0], [1.0], [2.0], [0.5], [3.0], [1.5], [0.2], [2.2]])


def test_ridge_equals_the_closed_form_in_the_terms_of_the_texts_that_it_knows():
    counts, known = term_counts(TEXTS, word_terms), np.arange(8) < 6
    x = tf_idf(counts, np.arange(8)).toarray()
    kernel, centre = similarities([counts], np.arange(8)), TARGETS[known].mean()
    inside = x[known]
    weights = np.linalg.solve(
        inside.T @ inside + 0.7 * np.eye(x.shape[1]), inside.T @ (TARGETS[known] - centre)
    )
    found = ridge(kernel[~known], kernel, TARGETS, known, 0.7)
    assert found == pytest.approx(x[~known] @ weights + centre)


def test_the_penalty_is_chosen_on_the_validation_part():
    kernel, targets = np.kron(np.eye(2), np.ones((6, 6))), np.kron(np.eye(2), np.ones((6, 1)))
    validation = np.arange(12) % 3 == 0
    assert best_penalty(kernel, targets, validation) == min(PENALTIES)
    # What is learned of the others says the opposite of the part.
    contrary = np.where(validation, -1.0, 1.0)[:, None] * np.repeat([[1.0], [-1.0]], 6, axis=0)
    assert best_penalty(kernel, contrary, validation) == max(PENALTIES)


def test_a_held_out_fold_has_no_say_in_its_own_penalty(tmp_path):
    rng, examples = np.random.default_rng(3), []
    for i in range(60):
        words = rng.choice(list("abcdef"), 8, p=np.roll([0.5, *[0.1] * 5], i % 3))
        example = Example(f"r{i}", " ".join(words), str(i % 3), f"g{i // 4}", fold=i // 4 % 3)
        examples.append(example)
    other = [replace(e, target="7") if e.fold == 0 else e for e in examples]
    table, said, chose = (tmp_path / name for name in ("examples.csv", "p.csv", "r.json"))
    chosen = []
    for rows in (examples, other):
        write_examples(table, rows)
        write_baseline(table, said, chose, "regression", 3)
        record = json.loads(chose.read_text())
        predictions = read_predictions(said)
        of_fold = [predictions[e.id] for e in rows if e.fold == 0]
        chosen.append((record["penalties"][0], of_fold))
    assert chosen[0] == chosen[1]


def test_losses_and_scores_are_those_of_the_textbook():
    outputs, values = np.array([[1.0], [3.0]]), np.array([0.0, 1.0], np.float32)
    assert mean_loss(outputs, values, np.ones(2)) == pytest.approx(2.5)
    outputs = np.array([[2.0, 0.0], [0.0, 1.0]])
    expected = (np.log1p(np.exp(-2)) + np.log1p(np.exp(1))) / 2
    assert mean_loss(outputs, np.array([0, 0]), np.ones(2)) == pytest.approx(expected)
    for task, pairs, score in (
        ("regression", [("0", "1"), ("1", "3")], 2.5**0.5),
        ("token_classification", [("NOUN VERB NOUN", "NOUN [CUT] NOUN")], 2 / 3),
        ("classification", zip("abb", "aab", strict=True), 2 / 3),
    ):
        rows = [(Example(str(i), "", target), said) for i, (target, said) in enumerate(pairs)]
        examples, predictions = [e for e, _ in rows], {e.id: said for e, said in rows}
        metric = metric_of(task, ["NOUN", "VERB"])
        assert metric.of(examples, predictions) == pytest.approx(score)
    assert macro_f1(examples, predictions) == pytest.approx(2 / 3, abs=1e-6)
    small = float(texts_of(np.array([[1.234567e-5]]), [])[0])
    assert METRICS["regression"].rounded(small) == 1.234567e-5


def compared(figures, units):
    sums = {name: np.stack([x, np.ones_like(x)], axis=-1) for name, x in figures.items()}
    return Comparison(METRICS["regression"], sums, np.array(units))


def test_an_interval_holds_a_difference_that_is_there_and_0_where_there_is_none():
    rng = np.random.default_rng(0)
    units = np.repeat([f"g{i}" for i in range(60)], 5)
    hard = rng.normal(0, 1, 300) ** 2
    found = compared({"good": 0.5 * hard, "bad": hard, "twin": hard[::-1]}, units)
    gain = found.figures("good", "bad")
    assert gain["score"] == pytest.approx((0.5**0.5 - 1) * np.sqrt(hard.mean()))
    assert gain["interval"][0] < gain["score"] < gain["interval"][1] < 0
    low, high = found.figures("bad", "twin")["interval"]
    assert low < 0 < high


@pytest.mark.parametrize(
    ("score", "interval", "groups", "words"),
    [
        ("rmse", (-0.2, -0.05), 30, "is better than the same network from random weights"),
        ("accuracy", (-0.2, -0.05), 30, "is worse than"),
        ("rmse", (0.05, 0.2), 30, "is worse than"),
        ("rmse", (-0.2, 0.05), 30, "is not told apart from"),
        ("rmse", (-2e-5, -5e-6), 30, "−1.25e−05 in RMSE (95 % interval −2e−05 to −5e−06)"),
        ("rmse", (-0.2, -0.05), 9, "rough because from only 9 groups"),
    ],
)
def test_verdicts_say_what_the_interval_allows(score, interval, groups, words):
    figures = {"score": sum(interval) / 2, "interval": interval}
    difference = ScoreDifference(**figures, model="pretrained", beside="random")
    task = "regression" if score == "rmse" else "classification"
    found = verdict_on(difference, METRICS[task], task, groups)
    assert words in found.text
    assert found.tone == (
        "even" if "not told" in words else "worse" if "worse" in words else "better"
    )
