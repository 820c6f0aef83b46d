import re
from types import SimpleNamespace

import pytest
import report_artefacts

from mlm.config.pretraining import Checkpoint, Optimizer
from mlm.foundations.errors import MlmError
from mlm.training.loop import Clock, Row, TrainingLog, train
from mlm.training.processes import Peers
from mlm.training.saved_states import StateDirectory

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


@pytest.mark.parametrize("lost", ["the loss is", "the validation loss is", "some weights are"])
def test_a_figure_that_is_not_finite_ends_the_training_in_words_and_is_not_saved(tmp_path, lost):
    """A huge weight may be finite, and the validation loss of it not."""
    nan, saved = float("nan"), []
    made = {"loss": nan if lost == "the loss is" else 1.0, "predictions": 1.0, "overflow": 0.0}
    engine = SimpleNamespace(
        step=0,
        devices=SimpleNamespace(group=Peers(), kind="cpu", replicas=1),
        advance=lambda steps: vars(engine).update(step=steps) or made,
        validate=lambda: (nan if lost == "the validation loss is" else 1.0, 0.5),
        weights_are_finite=lambda: lost != "some weights are",
    )
    task = SimpleNamespace(**vars(TASK) | {"steps": 1}, section="pretraining.optimizer")
    task.optimizer, task.epoch = Optimizer().scheduled(1), lambda step: 0.0
    task.log_every = task.validate_every = 1
    states = StateDirectory(str(tmp_path), 1)
    states.save = lambda *state: saved.append(state)
    with pytest.raises(MlmError, match=f"{lost} not finite at step 1 .*No state was saved yet"):
        train(engine, task, Checkpoint(), states, TrainingLog())
    assert not saved
