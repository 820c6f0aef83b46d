import subprocess

import numpy as np
import pytest
from fake_bucket import fake_bucket
from tests.conftest import refusal

from mlm.training import state_files
from mlm.training.state_files import make_directory, read_bytes, write_bytes
from mlm.training.states import StateDirectory


class Counter:
    """A state of one large number."""

    def __init__(self, value: float = 0.0, size: int = 1000):
        self.value = np.full(size, float(value))

    def write(self, place: str) -> None:
        write_bytes(f"{place}/variables", self.value.tobytes())

    def read(self, place: str) -> None:
        self.value = np.frombuffer(read_bytes(f"{place}/variables"))


@pytest.fixture(params=["local", "bucket"])
def place(request, tmp_path, monkeypatch):
    """A directory here, and one in a bucket."""
    if request.param == "local":
        yield str(tmp_path / "state")
        return
    with fake_bucket() as (_, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        state_files.cloud_storage.cache_clear()
        yield "gs://bucket/state"
    state_files.cloud_storage.cache_clear()


def remove_file(path: str) -> None:
    system, base = state_files._located(path)
    system.delete_file(base)


def saved(place, steps=(5, 10, 15), keep=2, rate=0.1) -> StateDirectory:
    states = StateDirectory(place, keep, {"settings": {"rate": rate}, "code": {"mlm.a": "1"}})
    make_directory(place)
    for step in steps:
        states.save(step, Counter(step), {"rows": [step]})
    return states


def restored(states) -> tuple[int, float, dict]:
    place, step, progress = states.newest_whole()
    counter = Counter()
    counter.read(place)
    return step, float(counter.value[0]), progress


def hold(states: StateDirectory) -> None:
    with states.held():
        pass


def test_the_newest_state_comes_back_and_the_last_ones_are_kept(place):
    states = saved(place)
    assert states.steps() == [15, 10]
    assert restored(states) == (15, 15.0, {"rows": [15]})


@pytest.mark.parametrize(
    "file, size",
    [("variables", -7), ("progress.json", None), ("complete.json", 20), ("complete.json", None)],
)
def test_a_state_that_is_not_whole_falls_back_to_the_one_before(place, file, size, capsys):
    states, path = saved(place), f"{place}/step-00000015/{file}"
    content = read_bytes(path)
    remove_file(path)
    if size is not None:
        write_bytes(path, content[:size])
    assert restored(states) == (10, 10.0, {"rows": [10]})
    assert "step-00000015" in capsys.readouterr().err


@pytest.mark.parametrize("keep", [1, 2])
def test_damaged_states_after_a_new_one_do_not_push_it_out(place, keep):
    states = saved(place, steps=(10, 20, 30), keep=3)
    states.keep = keep
    for step in (20, 30):
        remove_file(f"{place}/step-{step:08d}/complete.json")
    assert restored(states)[0] == 10
    states.save(12, Counter(12), {"rows": [12]})
    assert states.steps() == [12, 10][:keep]
    assert restored(states) == (12, 12.0, {"rows": [12]})


def test_a_state_of_another_training_is_refused_with_what_differs(place):
    saved(place)
    basis = {"settings": {"rate": 0.2}, "code": {"mlm.a": "2"}}
    said = refusal(StateDirectory(place, 2, basis).newest_whole)
    assert "settings.rate: 0.1 then, 0.2 now" in said and "mlm.a" in said


def test_states_of_the_run_with_other_settings_are_named(place):
    saved(f"{place}/base/aaaa", steps=(5,))
    make_directory(f"{place}/base/cccc")
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
        assert "step 10" in refusal(states.save, 10, Counter(size=100_000), {})
        assert restored(states)[0] == 5
        assert not list(tmp_path.glob("state/*.partial"))
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_second_writer_is_refused_until_the_first_ends(tmp_path):
    (tmp_path / "step-00000005.partial").mkdir()
    with StateDirectory(str(tmp_path), 2).held():
        # What a killed write left is cleared away.
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
        assert "in use" in refusal(hold, StateDirectory(str(tmp_path), 2))
    hold(StateDirectory(str(tmp_path), 2))
