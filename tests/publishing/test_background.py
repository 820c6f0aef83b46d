"""Checkpoints reach the Hub beside a training that neither waits for them nor is changed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mlm.config.publish import Publish
from mlm.publishing.background import background_pushes
from tests.conftest import waited_for
from tests.publishing.conftest import TOKEN
from tests.publishing.hub_server import Fault


def publishing(every: int = 2, wait: int = 120, attempts: int = 1) -> Publish:
    """The part of section `publish` that a training has."""
    checkpoints = {"every": every, "branch": "checkpoints", "wait": wait}
    given = {"model": "me/model", "private": True, "attempts": attempts}
    return Publish.of_param(given | {"checkpoints": checkpoints})


class Engine:
    """An engine, and its model of 2,000 bytes, each of them the step."""

    def __init__(self, step: int):
        self.weights = b"\0" + bytes([step]) * 2000

    def exported(self) -> "Engine":
        return self

    def write(self, place: str) -> None:
        (Path(place) / "model.safetensors").write_bytes(self.weights)
        (Path(place) / "config.json").write_text("{}")


def pushed(hub) -> list[int]:
    """Steps in the order of their commits."""
    repo = hub.repos.get(("model", "me/model"))
    titles = [repo.titles[c] for c in reversed(repo.history("checkpoints"))] if repo else []
    return [int(t.removeprefix("Step ")) for t in titles if t.startswith("Step ")]


def pushing_processes() -> list[psutil.Process]:
    found = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
    return [child for child in found if "mlm.publishing.uploads" in child.cmdline()]


def until_uploading(hub) -> None:
    waited_for(lambda: hub.count("POST", "batch") == 1)


def test_every_due_step_is_pushed_to_the_branch(hub, tmp_path, capsys):
    beside = tmp_path / "tokenizer.json"
    beside.write_text("{}\n")
    with background_pushes(publishing(), str(tmp_path), (beside,)) as pushes:
        step = 0
        while (step := pushes.due(step)) <= 6:
            pushes.act(step, Engine(step))
            waited_for(lambda: not pushes.reap())
    assert pushed(hub) == [2, 4, 6]
    found = hub.files("me/model", branch="checkpoints")
    assert set(found) == {"model.safetensors", "config.json", "tokenizer.json"}
    assert found["model.safetensors"] == Engine(6).weights
    assert hub.files("me/model") == {} and hub.repos["model", "me/model"].private
    assert not (tmp_path / "pushes").exists()
    commit = hub.repos["model", "me/model"].branches["checkpoints"]
    assert f"step 6 is in me/model (checkpoints), commit {commit}" in capsys.readouterr().err


def test_a_push_never_waits_and_the_newest_wins(hub, tmp_path, capsys):
    hub.receiving.clear()
    with background_pushes(publishing(), str(tmp_path), ()) as pushes:
        pushes.act(2, Engine(2))
        until_uploading(hub)
        for step in (4, 6, 8):
            pushes.act(step, Engine(step))
        assert pushed(hub) == []
        hub.receiving.set()
    assert pushed(hub) == [2, 8]
    told = capsys.readouterr().err
    assert "step 4 is not pushed: step 6 is newer" in told
    assert "the training is done; waiting for the push of step 8 to me/model (checkpoints)" in told


def test_a_failed_push_is_tried_again_and_at_last_a_warning(hub, tmp_path, capsys):
    hub.faults.append(Fault("POST", "/commit/", status=500, times=3))
    with background_pushes(publishing(attempts=2), str(tmp_path), ()) as pushes:
        pushes.act(2, Engine(2))  # Fails twice, and is given up.
        waited_for(lambda: not pushes.reap())
        pushes.act(4, Engine(4))  # Fails once.
    assert pushed(hub) == [4]
    told = capsys.readouterr().err
    assert "warning: step 2 is not pushed: The Hub is out of order (500" in told


def test_without_a_token_the_training_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with background_pushes(publishing(), str(tmp_path), ()) as pushes:
        assert pushes is None
    assert "warning: no checkpoints are pushed: Publishing needs a token" in capsys.readouterr().err


def test_the_end_waits_no_longer_than_it_is_told(hub, tmp_path, capsys):
    hub.receiving.clear()
    with background_pushes(publishing(wait=1), str(tmp_path), ()) as pushes:
        pushes.act(2, Engine(2))
        until_uploading(hub)
    assert pushed(hub) == [] and pushing_processes() == []
    told = capsys.readouterr().err
    assert "the push of step 2 was not done after 1 s and is given up" in told


def test_a_training_that_is_stopped_does_not_wait(hub, tmp_path):
    hub.receiving.clear()
    pushing = background_pushes(publishing(), str(tmp_path), ())
    with pytest.raises(KeyboardInterrupt), pushing as pushes:
        pushes.act(2, Engine(2))
        until_uploading(hub)
        raise KeyboardInterrupt
    assert pushed(hub) == [] and pushing_processes() == []


def test_a_pushing_process_that_dies_is_a_warning_and_the_next_push_goes_through(
    hub, tmp_path, capsys
):
    hub.receiving.clear()
    with background_pushes(publishing(), str(tmp_path), ()) as pushes:
        pushes.act(2, Engine(2))
        until_uploading(hub)
        (process,) = pushing_processes()
        assert process.nice() == 19, "the training goes first"
        process.kill()
        hub.receiving.set()
        pushes.act(4, Engine(4))
    assert pushed(hub) == [4]
    told = capsys.readouterr().err
    assert "step 2 is not pushed: the pushing process ended with status -9" in told


def test_a_full_disk_is_a_warning(hub, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Engine, "write", lambda *_: open("/dev/full", "w").write("x" * 10**6))
    with background_pushes(publishing(), str(tmp_path), ()) as pushes:
        pushes.act(2, Engine(2))
    assert "warning: step 2 is not pushed: OSError" in capsys.readouterr().err


def test_the_pushing_process_ends_with_the_training_and_knows_no_token_by_its_arguments(
    hub, tmp_path
):
    hub.receiving.clear()
    program = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.publishing.test_background import Engine, background_pushes, publishing
with background_pushes(publishing(), {str(tmp_path)!r}, ()) as pushes:
    pushes.act(2, Engine(2))
    print(pushes._process.pid, flush=True)
    time.sleep(600)
"""
    place = str(Path(__file__).parents[2] / "scripts")
    training = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": place},
    )
    worker = psutil.Process(int(training.stdout.readline()))
    until_uploading(hub)
    assert TOKEN not in " ".join(worker.cmdline())
    worker.send_signal(signal.SIGINT)
    time.sleep(0.1)
    assert worker.is_running(), "Ctrl-C is for the training to decide"
    training.kill()
    training.wait()
    psutil.wait_procs([worker], 60)
    assert not worker.is_running()
