"""TensorBoard by docs/reruns.md: its commands, as they stand, show what a training wrote."""

import json
import re
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from tests.conftest import users_environment

from mlm.training.training_log import Events, Row

ROOT = Path(__file__).parents[2]


def answered(url: str, server: subprocess.Popen) -> object:
    """What `server` answers once it has read the events; at most two minutes."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert server.poll() is None, "TensorBoard ended by itself"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                if found := json.load(answer):
                    return found
        except OSError:
            pass
        time.sleep(1)
    raise AssertionError(f"TensorBoard did not answer at {url}")


@pytest.mark.slow
def test_tensorboard_shows_the_scalars_of_a_training(tmp_path):
    events = Events(str(tmp_path / "state" / "base" / "tensorboard"))
    for step in (10, 20):
        events.add(Row(step, 0.1, 5.0 - step / 10, 0.2, None, None, 0.001, 1000.0))
    (block,) = re.findall(
        r"```bash\n([^`]*tensorboard --logdir[^`]*)```", (ROOT / "docs" / "reruns.md").read_text()
    )
    *install, start = block.splitlines()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"cwd": tmp_path, "env": users_environment()}
    subprocess.run(["bash", "-euc", "\n".join(install)], check=True, **settings)
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(
            f"exec {start} --port {port}", shell=True, stdout=log, stderr=log, **settings
        )
    try:
        scalars = f"http://127.0.0.1:{port}/data/plugin/scalars"
        (run,) = tags = answered(f"{scalars}/tags", server)
        assert {"loss", "accuracy", "learning_rate", "tokens_per_second"} <= tags[run].keys()
        points = answered(f"{scalars}/scalars?run={run}&tag=loss", server)
        assert [(step, value) for _, step, value in points] == [(10, 4.0), (20, 3.0)]
    finally:
        server.terminate()
        server.wait(30)
