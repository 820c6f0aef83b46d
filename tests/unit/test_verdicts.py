from dataclasses import replace

import pytest
import report_artefacts as made

from mlm.corpus.artefacts import WordOverlap
from mlm.evaluation.artefacts import Difference
from mlm.evaluation.verdicts import against_baseline, between_train_and_test, on_overlap

AHEAD = (-0.5, (-0.6, -0.4)), (0.05, (0.04, 0.06))
BEHIND = (0.5, (0.4, 0.6)), (-0.05, (-0.06, -0.04))
ALONE = (-0.5, None), (0.05, None)
TIED = (-0.004, (-0.02, 0.01)), (-0.003, (-0.01, 0.004))


@pytest.mark.parametrize(
    ("loss", "accuracy", "tone", "words"),
    [
        (*AHEAD, "better", "ahead in loss (−0.500 nats, 95 %: −0.600 to −0.400), ahead"),
        (*BEHIND, "worse", "behind in loss (+0.500 nats, 95 %: +0.400 to +0.600), beh"),
        (AHEAD[0], BEHIND[1], "even", "), behind in accuracy (−5.0 points, 95 %: −6.0 to −4.0)."),
        (*TIED, "even", "(−0.3 points, 95 %: −1.0 to +0.4; 0.7 would be told apart)"),
        (BEHIND[0], TIED[1], "even", "cannot be told apart in accuracy"),
        (*ALONE, "even", "in loss (−0.500 nats, no interval), cannot"),
    ],
)
def test_loss_and_accuracy_are_judged_by_their_intervals_and_only_two_losses_are_bad_news(
    loss, accuracy, tone, words
):
    differences = {"loss_difference": Difference(*loss)}
    differences["accuracy_difference"] = Difference(*accuracy)
    found = replace(made.evaluation("base").baselines["trigram"], **differences)
    said = against_baseline("X", found)
    assert said.tone == tone and words in said.text


@pytest.mark.parametrize(
    ("test", "train", "interval", "tone", "words"),
    [
        (6.0, 1.0, (4.8, 5.2), "worse", "Memorised"),
        (6.0, 1.0, None, "even", "Whether train is known better was not measured"),
        (4.0, 3.9, (0.05, 0.15), "even", "Slightly better on train"),
        (4.0, 3.99, (-0.05, 0.06), "better", "No gap"),
        (4.0, 4.5, (-0.7, -0.3), "even", "Better on test"),
    ],
)
def test_only_a_large_gap_is_called_memorising(test, train, interval, tone, words):
    found = between_train_and_test(test, train, Difference(test - train, interval))
    assert found.tone == tone and found.text.startswith(words)


def test_more_than_one_percent_of_seen_test_words_is_a_warning():
    overlap = WordOverlap(8, 10_000, 100, 3, 0, 0)
    unseen, seen = on_overlap(overlap), on_overlap(replace(overlap, shared=327))
    assert unseen.tone == "better" and unseen.text.startswith("The test text is unseen: 1.00 %")
    assert seen.tone == "even" and "not unseen: 3.27 %" in seen.text
    for words in (0, 400):
        short = on_overlap(WordOverlap(8, words, 0, 0, 500, 70))
        assert short.tone == "even" and "not measured: 500 of" in short.text
