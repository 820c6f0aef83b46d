import errno
import os
import subprocess

import pytest
from fake_bucket import fake_bucket
from tests.conftest import refusal

from mlm.training import saved_states as module
from mlm.training.saved_states import SavedState, StateDirectory, write_bytes


@pytest.fixture(params=["local", "bucket"])
def place(request, tmp_path, monkeypatch):
    """A directory here, and one in a bucket."""
    if request.param == "local":
        yield str(tmp_path / "state")
        return
    with fake_bucket() as (_, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        module.cloud_storage.cache_clear()
        yield "gs://bucket/state"
    module.cloud_storage.cache_clear()


def read_bytes(path: str) -> bytes:
    with module._opened(path) as file:
        return file.read()


def state(step: int, size: int = 8000) -> SavedState:
    return SavedState(step, {"rows": [step]}, step.to_bytes() * size)


def save(states: StateDirectory, step: int, size: int = 8000) -> None:
    states.save(step, lambda: state(step, size).arrays, state(step).progress)


def saved(place, steps=(5, 10, 15), keep=2, rate=0.1) -> StateDirectory:
    states = StateDirectory(place, keep, {"settings": {"rate": rate}, "code": {"mlm.a": "1"}})
    for step in steps:
        save(states, step)
    return states


def test_the_newest_state_comes_back_and_the_last_ones_are_kept(place):
    states = saved(place)
    assert states.steps() == [15, 10]
    assert states.newest() == state(15)


@pytest.mark.parametrize("size", [-7, 20, 0])
def test_a_state_that_is_not_whole_falls_back_to_the_one_before(place, size, capsys):
    states = saved(place)
    write_bytes(states.file(15), read_bytes(states.file(15))[:size])
    assert states.newest() == state(10)
    assert "step-00000015" in capsys.readouterr().err


@pytest.mark.parametrize("keep", [1, 2])
def test_damaged_states_after_a_new_one_do_not_push_it_out(place, keep):
    states = saved(place, steps=(10, 20, 30), keep=3)
    states.keep = keep
    for step in (20, 30):
        write_bytes(states.file(step), b"{}")
    assert states.newest() == state(10)
    save(states, 12)
    assert states.steps() == [12, 10][:keep]
    assert states.newest() == state(12)


def test_a_state_of_another_training_or_with_a_changed_letter_is_skipped(place, capsys):
    saved(place, steps=(5,))
    assert StateDirectory(place, 2, {"settings": {"rate": 0.2}}).newest() is None
    assert "another training" in capsys.readouterr().err
    file = StateDirectory(place, 2).file(5)
    write_bytes(file, read_bytes(file).replace(b'"rows": [5]', b'"rows": [6]'))
    assert saved(place, steps=()).newest() is None
    assert "it is damaged" in capsys.readouterr().err


def test_states_of_the_run_with_other_settings_are_named(place):
    saved(f"{place}/base/aaaa", steps=(5,))
    saved(f"{place}/base/bbbb", steps=(5,))
    (words,) = saved(f"{place}/base/bbbb", rate=0.2).abandoned()
    assert f"{place}/base/aaaa" in words and "settings.rate: 0.1 then, 0.2 now" in words
    assert StateDirectory(f"{place}/new/dddd", 2).abandoned() == []


def test_a_full_disk_leaves_the_states_before_it(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        states = saved(str(tmp_path / "state"), steps=(5,))
        assert "step 10" in refusal(save, states, 10, 100_000)
        assert states.newest() == state(5)
        assert not list(tmp_path.glob("state/.*.partial"))
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_second_writer_is_refused_until_the_first_ends(tmp_path):
    (tmp_path / ".step-00000005.state.partial").touch()
    with StateDirectory(str(tmp_path), 2).locked():
        # What a killed write left is cleared away.
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
        assert "in use" in refusal(StateDirectory(str(tmp_path), 2).locked)
    with StateDirectory(str(tmp_path), 2).locked():
        pass


def test_a_file_system_without_locks_is_no_other_training(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(module.fcntl, "flock", flock)
    with StateDirectory(str(tmp_path), 2).locked():
        assert (tmp_path / "lock").is_file()
