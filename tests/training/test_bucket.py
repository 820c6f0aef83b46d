"""State under gs://, through TensorFlow's own file system for it."""

import signal

import pytest
from fake_bucket import fake_bucket
from small_run import run_child, write_inputs

from mlm.foundations.digests import file_sha256


@pytest.fixture
def bucket(tmp_path):
    with fake_bucket(tmp_path) as served:
        yield served


@pytest.mark.slow
def test_a_killed_training_in_a_bucket_ends_like_one_on_the_disk(tmp_path, bucket):
    objects, environment = bucket
    write_inputs(tmp_path)
    assert run_child(tmp_path, "local", {"pretraining": {"steps_per_execution": 10}}) == 0
    remote = {"pretraining": {"checkpoint": {"directory": "gs://bucket/state"}}}
    fault = {"environment": environment, "lease": (0.5, 3.0)}
    assert run_child(tmp_path, "remote", remote, fault | {"step": 12}) == -signal.SIGKILL
    assert any(name.endswith("step-00000010/complete.json") for name in objects)
    assert run_child(tmp_path, "remote", remote, fault) == 0
    log = (tmp_path / "remote.stderr").read_text()
    assert "resumes from step 10 of 40" in log
    assert not (tmp_path / "state" / "remote").exists()
    weights = [tmp_path / "runs" / n / "model" / "model.safetensors" for n in ("local", "remote")]
    assert file_sha256(weights[0]) == file_sha256(weights[1])
    # The lease is given back, and no more states stay than were asked for.
    assert not any(name.endswith("lease.json") for name in objects)
    steps = {name.split("/")[3] for name in objects if "/step-" in name}
    assert steps == {"step-00000035", "step-00000040"}
