"""Curves reach TensorBoard and Weights & Biases if asked for, and no byte changes."""

import re

import pytest
from small_run import result, run_child, write_inputs


@pytest.mark.slow
def test_curves_reach_tensorboard_and_wandb_and_change_no_byte(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    write_inputs(tmp_path)
    assert run_child(tmp_path, "quiet") == 0
    asked = {"log_to": ["tensorboard", "wandb"]}
    offline = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path)}
    assert run_child(tmp_path, "loud", {"pretraining": asked}, {"environment": offline}) == 0
    assert not [*tmp_path.glob("state/quiet/*/tensorboard")]
    assert result(tmp_path, "quiet")[0] == result(tmp_path, "loud")[0]
    rows = result(tmp_path, "loud")[1]
    losses = [pytest.approx(float(row["loss"]), abs=1e-4) for row in rows]
    steps = [int(row["step"]) for row in rows]

    (directory,) = tmp_path.glob("state/loud/*/tensorboard")
    events = EventAccumulator(str(directory)).Reload()
    points = events.Tensors("loss")
    assert [point.step for point in points] == steps
    assert [float(make_ndarray(point.tensor_proto)) for point in points] == losses

    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    # A row's items are names and numbers as JSON, some again in the summary of the run.
    items = re.findall(rb"\x04loss\x82\x01.([0-9.e-]+)", file.read_bytes(), re.DOTALL)
    assert [float(item) for item in dict.fromkeys(items)] == losses
