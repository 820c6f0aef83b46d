import re
from types import SimpleNamespace

import pytest
import report_artefacts

from mlm.config.pretraining import OptimizerSection
from mlm.training.loop import Schedule
from mlm.training.periodic_actions import Logging
from mlm.training.training_log import Row, TrainingLog


def test_a_row_at_the_step_that_compiles_tells_no_time_left(monkeypatch, capsys):
    """Compilation, as after a resume one step before a row, is no measure of what is to come."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("mlm.training.periodic_actions.time.monotonic", lambda: clock.now)
    schedule = Schedule("base", 1040, 4, 100, 16, OptimizerSection().scheduled(1040), 20, 1000)
    log = TrainingLog()
    logging = Logging(schedule, log)
    for step, now in ((20, 100.0), (40, 110.0)):
        clock.now = now
        log.sums.add({"loss": 400.0, "accuracy": 10.0, "predictions": 100.0, "overflow": 0.0})
        logging.advanced(step)
        logging.act(step, None)
    compiled, first, second = capsys.readouterr().err.splitlines()
    assert compiled == "base: compiled in 0:01:40"
    assert "step 20/1040" in first and "left" not in first and "tokens/s" not in first
    # A thousand steps at half a second each.
    assert "128 tokens/s, 0:08:20 left" in second


def test_a_row_is_a_mean_over_predictions_and_of_none_no_figure(capsys):
    log, rows = TrainingLog(), []
    for steps in ([(8.0, 1.0, 2.0), (6.0, 0.0, 1.0), (0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)]):
        for loss, right, predictions in steps:
            measured = {"loss": loss, "accuracy": right, "predictions": predictions}
            log.sums.add(measured | {"overflow": 1.0})
        rows.append(Row(20, 0.1, *log.take_means(), None, None, 1e-3, None))
    first, second = (row.cells() for row in rows)
    assert first[2:4] == ["4.666667", "0.333333"] and second[2:4] == ["", ""]
    assert (log.predictions, log.overflow) == (3.0, 4.0)
    schedule = Schedule("base", 20, 1, 1, 1, OptimizerSection().scheduled(20), 20, 20)
    logging = Logging(schedule, log)
    logging.advanced(1)
    logging._print(rows[1])
    assert "step 20/20, no prediction, learning rate" in capsys.readouterr().err


@pytest.mark.parametrize(
    "masking, overflow, words",
    [
        ({"whole_word": False, "slots": None}, 0, None),
        ({"whole_word": False, "slots": 4}, 300, "30.00% of .* Raise pretraining.masking.slots"),
        ({"whole_word": True, "slots": None}, 300, "30.00% of .*masking.whole_word: false"),
        ({"whole_word": True, "slots": None}, 1, "0.14% of .* longer than the slots"),
    ],
)
def test_chosen_tokens_without_a_slot_are_told_with_their_share_and_what_helps(
    masking, overflow, words
):
    said = report_artefacts.training(
        "base", masking=masking, overflow=overflow, predictions=700
    ).without_slot
    assert said is None if words is None else re.match(words, said)
