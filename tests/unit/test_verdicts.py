from dataclasses import replace

import numpy as np
import pytest
import report_artefacts as made

from mlm.evaluation.artefacts import Difference
from mlm.evaluation.metrics import calibration_of
from mlm.evaluation.verdicts import (
    against_baseline,
    between_train_and_test,
    on_calibration,
    on_overlap,
    verdicts_on,
)


@pytest.mark.parametrize(
    ("difference", "interval", "tone", "words"),
    [
        (-0.5, (-0.6, -0.4), "better", "Better than X by 0.500 nats per prediction (95 % interval"),
        (0.5, (0.4, 0.6), "worse", "Not better than X: worse by 0.500 nats"),
        (
            -0.004,
            (-0.02, 0.01),
            "even",
            "Not better than X: the difference of 0.004 nats is within",
        ),
    ],
)
def test_a_difference_is_judged_by_its_interval_and_a_tie_is_neither(
    difference, interval, tone, words
):
    found = against_baseline("X", Difference(difference, interval), 0.95)
    assert found.tone == tone and found.text.startswith(words)
    ends = {"better": "0.400 to 0.600).", "worse": "0.400 to 0.600).", "even": "-0.020 to 0.010)."}
    assert found.text.endswith(ends[tone])


@pytest.mark.parametrize(
    ("test", "train", "interval", "tone", "words"),
    [
        (6.0, 1.0, (4.8, 5.2), "worse", "Memorised: the loss on train is 5.000 nats below the"),
        (4.0, 3.9, (0.05, 0.15), "even", "Slightly better on train"),
        (4.0, 3.99, (-0.05, 0.06), "better", "No gap"),
        (4.0, 4.5, (-0.7, -0.3), "even", "Better on test"),
    ],
)
def test_only_a_large_gap_is_called_memorising(test, train, interval, tone, words):
    summary = made.evaluation("base").test
    losses = replace(summary, loss=test), replace(summary, loss=train)
    found = between_train_and_test(*losses, Difference(test - train, interval), 0.95)
    assert found.tone == tone and found.text.startswith(words)


def test_calibration_is_mentioned_if_it_is_off():
    def said(confidence, accuracy):
        correct = np.arange(1000) < 1000 * accuracy
        return on_calibration(calibration_of(np.full(1000, confidence), correct, 10), accuracy)

    assert said(0.4, 0.39) is None
    over, under = said(0.6, 0.4), said(0.2, 0.4)
    assert over.text.startswith("Overconfident: it gives its first answers 60.0 % on average, and")
    assert under.text.startswith("Underconfident") and over.tone == under.tone == "even"


def test_more_than_one_percent_of_seen_test_words_is_a_warning():
    unseen, seen = on_overlap(0.01), on_overlap(0.0327)
    assert unseen.tone == "better" and unseen.text.startswith("The test text is unseen: 1.00 %")
    assert seen.tone == "even" and "not unseen: 3.27 %" in seen.text


def _said(figures, carved=False, num_samples=70):
    return [verdict.text for verdict in verdicts_on(figures, carved, num_samples, 70)]


def test_samples_of_a_carved_split_are_said_to_be_harder_beside_the_gap():
    figures = made.evaluation("base")
    figures = replace(figures, train=figures.test, gap=Difference(0.1, (0.05, 0.15)))
    said = _said(figures, carved=True, num_samples=20)
    (gap,) = [i for i, text in enumerate(said) if "on train, " in text]
    assert "0.05 to 0.08 nats" in said[gap + 1]
    assert any("Evaluated on 20 of the test split's 70 samples" in text for text in said)
    plain = [text for text in said if "0.08" not in text and "Evaluated" not in text]
    assert _said(figures) == plain


def test_few_predictions_are_mentioned():
    figures = made.evaluation("base")
    few = replace(figures, test=replace(figures.test, num_predictions=12, num_samples=3))
    assert any("12 in 3 samples" in text for text in _said(few))
    assert not any("Few predictions" in text for text in _said(figures))
