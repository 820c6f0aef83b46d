"""TensorBoard by docs/reruns.md: its commands, as they stand, show what a training wrote."""

import json
import re
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from small_run import result, run_child, write_inputs
from tests.conftest import users_environment

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
    write_inputs(tmp_path)
    assert run_child(tmp_path, "base") == 0
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
        rows = result(tmp_path, "base")[1]
        assert [step for _, step, _ in points] == [int(row["step"]) for row in rows]
        logged = [float(row["loss"]) for row in rows]
        assert [value for _, _, value in points] == pytest.approx(logged, abs=1e-4)
    finally:
        server.terminate()
        server.wait(30)
