"""A training leaves events that TensorBoard shows."""

import pytest
from small_run import result, run_child, write_inputs


@pytest.mark.slow
def test_tensorboard_shows_the_scalars_of_a_training(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    write_inputs(tmp_path)
    assert run_child(tmp_path, "base") == 0
    (directory,) = tmp_path.glob("state/base/*/tensorboard")
    events = EventAccumulator(str(directory)).Reload()
    named = events.Tags()["tensors"]
    assert {"loss", "accuracy", "learning_rate", "tokens_per_second"} <= set(named)
    points = events.Tensors("loss")
    rows = result(tmp_path, "base")[1]
    assert [point.step for point in points] == [int(row["step"]) for row in rows]
    found = [float(make_ndarray(point.tensor_proto)) for point in points]
    assert found == pytest.approx([float(row["loss"]) for row in rows], abs=1e-4)
