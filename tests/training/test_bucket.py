"""State under gs://."""

import signal

import pytest
from fake_bucket import fake_bucket
from small_run import result, run_child, told, write_inputs


@pytest.mark.slow
def test_a_killed_training_in_a_bucket_ends_like_one_on_the_disk(tmp_path):
    write_inputs(tmp_path)
    jax = {"engine": "jax"}
    assert run_child(tmp_path, "local", {"pretraining": jax}) == 0
    remote = {"pretraining": jax | {"checkpoint": {"directory": "gs://bucket/state"}}}
    with fake_bucket() as (objects, environment):
        fault = {"environment": environment}
        assert run_child(tmp_path, "remote", remote, fault | {"step": 12}) == -signal.SIGKILL
        assert any(name.endswith("step-00000010.state") for name in objects)
        assert run_child(tmp_path, "remote", remote, fault) == 0
    assert "resumes from step 10 of 40" in told(tmp_path, "remote")
    assert not (tmp_path / "state" / "remote").exists()
    assert result(tmp_path, "local")[0] == result(tmp_path, "remote")[0]
    # The last two are kept.
    steps = {name.split("/")[3] for name in objects if "/step-" in name}
    assert steps == {"step-00000035.state", "step-00000040.state"}
