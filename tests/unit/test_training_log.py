import re
from types import SimpleNamespace

import pytest
import report_artefacts

from mlm.training.loop import Clock, Row, TrainingLog

TASK = SimpleNamespace(name="base", steps=1040, tokens=lambda step: step * 64)


def test_a_row_at_the_step_that_compiles_has_no_speed(monkeypatch, capsys):
    """Compilation, as after a resume one step before a row, is no measure of what is to come."""
    now = [100.0]
    monkeypatch.setattr("mlm.training.loop.time.monotonic", lambda: now[0])
    clock, speeds = Clock(TASK), []
    for step, now[0] in ((20, 200.0), (40, 210.0)):
        clock.advanced(step)
        speeds.append(clock.tokens_per_second(step))
    assert speeds == [None, 128.0]
    assert capsys.readouterr().err == "base: compiled in 0:01:40\n"


def test_a_row_is_a_mean_over_predictions_and_of_none_no_figure(capsys):
    log, rows = TrainingLog(), []
    for steps in ([(8.0, 1.0, 2.0), (6.0, 0.0, 1.0), (0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)]):
        for loss, right, predictions in steps:
            measured = {"loss": loss, "accuracy": right, "predictions": predictions}
            log.add(measured | {"overflow": 1.0})
        rows.append(Row(20, 0.1, *log.take_means(), None, None, 1e-3, None))
    first, second = (row.cells() for row in rows)
    assert first[2:4] == ["4.666667", "0.333333"] and second[2:4] == ["", ""]
    assert (log.predictions, log.overflow) == (3.0, 4.0)
    Clock(TASK).print(rows[1])
    assert "step 20/1040, no prediction, learning rate" in capsys.readouterr().err


@pytest.mark.parametrize(
    "masking, overflow, words",
    [
        ({"whole_word": False, "slots": None}, 0, None),
        ({"whole_word": False, "slots": 4}, 300, "30.00% of .*masking.slots: null"),
        ({"whole_word": True, "slots": None}, 300, "30.00% of .*masking.whole_word: false"),
    ],
)
def test_chosen_tokens_without_a_slot_are_told_with_their_share_and_what_helps(
    masking, overflow, words
):
    said = report_artefacts.training(
        "base", masking=masking, overflow=overflow, predictions=700
    ).without_slot
    assert said is None if words is None else re.match(words, said)
