"""Several processes train one run together: the same losses, kills, and what is refused."""

import csv
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import psutil
import pytest
from small_run import result, small_job, small_results, write_inputs
from tests.conftest import users_environment

from mlm.config.resolution import resolve
from mlm.foundations.atomic import read_json
from mlm.foundations.errors import ConfigError, MlmError
from mlm.training import processes
from mlm.training.locks import FileLock
from mlm.training.processes import (
    COORDINATOR,
    COUNT,
    INDEX,
    Member,
    as_member,
    run_together,
)

SCRIPTS = Path(__file__).parents[2] / "scripts"

#: What the rule's script does with a request: in this process, or in several that it starts.
JOB = """
import json, sys
sys.path.insert(0, sys.argv[1])
from mlm.foundations.errors import MlmError
from mlm.training.processes import run_together
from mlm.config.run import RunConfiguration
sys.path.insert(0, sys.argv[1] + "/jobs")
import pretrain
request = json.loads(sys.argv[2])
asked = RunConfiguration.of_param(request["config"]).accelerator
try:
    if asked.together:
        run_together(sys.argv[3], request, asked.processes, asked.start)
    else:
        pretrain.train(request)
except MlmError as error:
    print("MlmError:", error, file=sys.stderr)
    sys.exit(3)
"""


#: Programs that a process compiles are kept for those after it: a third of their time. Each layout
#: has programs of its own.
COMPILED = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = tmp_path_factory.mktemp("together")
    COMPILED["JAX_COMPILATION_CACHE_DIR"] = str(made / "compiled")
    write_inputs(made)
    return made


def layout(processes: int, devices: int, **others) -> dict:
    """Overrides: so many processes with so many devices each; all add up alike."""
    here = {"processes": processes, "virtual_replicas": devices, "cpu_threads": 4}
    pretraining = {"engine": "jax", "per_replica_batch_size": 2, "steps": 20, "log_every": 1}
    return {"accelerator": here | others, "pretraining": pretraining}


def request_of(root: Path, name: str, overrides: dict) -> dict:
    """What rule `pretrain` asks for of a small run."""
    settings, files = small_job(root, name, overrides)
    return {
        "config": settings.model_dump(),
        "files": asdict(files),
        "results": asdict(small_results(root, name)),
        "push": {"checkpoints": {"every": None}},
        "preflight": None,
    }


def job(request: dict, log: Path, member=SCRIPTS / "jobs" / "pretrain.py", environment=None):
    """The job under way, its output in `log`; processes that it starts run `member`."""
    with log.open("a") as output:
        return subprocess.Popen(
            [sys.executable, "-c", JOB, str(SCRIPTS), json.dumps(request), str(member)],
            env=users_environment() | COMPILED | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def trained(root: Path, name: str, overrides: dict, status: int = 0, **of_job) -> str:
    """Train the run to its end, good or bad; the output."""
    log = root / f"{name}.log"
    process = job(request_of(root, name, overrides), log, **of_job)
    process.wait(300)
    assert process.returncode == status, log.read_text()[-4000:]
    return log.read_text()


def losses(root: Path, name: str) -> np.ndarray:
    with open(root / "runs" / name / "training.csv") as file:
        return np.array([float(row["loss"]) for row in csv.DictReader(file)])


def whole(root: Path, processes: int, devices: int) -> str:
    """The name of a run of that layout, left alone, which is trained if it was not before."""
    name = f"whole-{processes}-{devices}"
    if not (root / "runs" / name / "training.json").exists():
        trained(root, name, layout(processes, devices))
    return name


@pytest.mark.slow
def test_processes_and_devices_divide_a_batch_as_they_may_and_the_losses_stay(root):
    """A sample that another process masked otherwise, or left out, would change them at once."""
    one, two, four = (whole(root, *of) for of in ((1, 4), (2, 2), (4, 1)))
    assert len(losses(root, one)) == 20
    np.testing.assert_allclose(losses(root, two), losses(root, one), rtol=2e-6)
    # Summed in the same order, by the same library.
    assert result(root, two) == result(root, four)
    found = read_json(root / "runs" / two / "training.json")
    assert (found["replicas"], found["processes"]) == (4, 2)
    # The state's directory holds what one process leaves there, and no more.
    left = {path.name for path in (root / "state" / two).glob("*/*")}
    assert left == {"lock", "tensorboard", "step-00000015", "step-00000020"}


class Store:
    """Stands for the key-value store that JAX serves."""

    def __init__(self):
        self.found, self.changed = {}, threading.Condition()

    def key_value_set(self, key, value):
        with self.changed:
            self.found[key] = value
            self.changed.notify_all()

    def blocking_key_value_get(self, key, _milliseconds):
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.found, 20)
            return self.found[key]


def ask_all(question, *given) -> list:
    """What `question(group, value)` gives or raises for each of so many processes, threads here."""
    from mlm.training.in_jax.together import Together

    store, answers = Store(), [None] * len(given)

    def ask(index):
        try:
            answers[index] = question(Together(store, len(given), index), given[index])
        except MlmError as error:
            answers[index] = error

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(given))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


SAME = {
    "settings": {"seed": 0, "optimizer": {"learning_rate": 0.006}},
    "code": {"mlm.samples.masking": "1f"},
    "packages": {"jax": "0.10.2"},
    "manifests": {"train": "ab"},
}


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"settings": {"seed": 1, "optimizer": {"learning_rate": 0.006}}}, "settings.seed: 0 in"),
        ({"code": {"mlm.samples.masking": "2f"}}, "code mlm.samples.masking is another"),
        ({"packages": {"jax": "0.10.1"}}, "packages.jax: '0.10.2' in process 0, '0.10.1' there"),
        ({"manifests": {"train": "cd"}}, "manifests.train is another"),
    ],
)
def test_processes_that_do_not_have_the_same_are_refused_in_words(changed, said):
    answers = ask_all(lambda group, what: group.check_alike(what), SAME, SAME, SAME | changed)
    assert len({str(answer) for answer in answers}) == 1
    assert f"process 2: {said}" in str(answers[0])
    assert "process 1" not in str(answers[0])
    assert ask_all(lambda group, what: group.check_alike(what), SAME, SAME) == [None, None]


def test_what_fails_in_one_process_is_said_by_all():
    def fails_in(group, problem):
        with group.as_one():
            if problem:
                raise MlmError(problem)

    found = ask_all(fails_in, None, "no disk", None)
    assert {str(error) for error in found} == {"process 1 of 3: no disk"}
    assert ask_all(fails_in, None, None) == [None, None]
    assert ask_all(lambda group, value: group.told(value), [1, "a"], None) == [[1, "a"]] * 2


def test_a_directory_of_states_that_not_all_see_is_refused(tmp_path, monkeypatch):
    from mlm.training import states

    monkeypatch.setattr(states, "_SEEN_SECONDS", 0.5)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()

    def look(group, name):
        place = str(tmp_path / name)
        with states.StateDirectory(place, 2, leads=group.leads).held(group):
            pass

    found = ask_all(look, "here", "there")
    said = r"process 1 of 2: pretraining.checkpoint.directory: \S+there is not the directory of"
    assert all(re.match(said, str(error)) for error in found)
    assert ask_all(look, "here", "here") == [None, None]
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["lock"]


def test_a_process_says_which_it_is_or_is_refused():
    env = {COORDINATOR: "10.0.0.1:8476", COUNT: "2", INDEX: "1"}
    assert as_member("here", 2, env) == Member("10.0.0.1:8476", 2, 1)
    of_slurm = {k: v for k, v in env.items() if k != INDEX} | {"SLURM_PROCID": "0"}
    assert as_member("srun", 2, of_slurm) == Member("10.0.0.1:8476", 2, 0)
    # As JAX finds them.
    assert as_member("hosts", None, {}) == Member()
    for start, count, wrong, said in (
        ("here", 2, {}, f"{COORDINATOR}, {COUNT}, {INDEX} are not set"),
        ("hosts", 2, env | {INDEX: ""}, f"{INDEX} is not set"),
        ("hosts", 3, env, "accelerator.processes: 3, but JAX_NUM_PROCESSES is 2"),
        ("hosts", 2, env | {INDEX: "2"}, "from 0 to below the first"),
    ):
        with pytest.raises(MlmError, match=said):
            as_member(start, count, wrong)


@pytest.mark.parametrize("asked", [{"processes": 2}, {"start": "hosts"}])
def test_several_processes_are_refused_where_tensorflow_trains(asked):
    said = r"accelerator.\w+: \w+, which pretraining.engine: tensorflow does not have"
    with pytest.raises(ConfigError, match=said):
        resolve({"accelerator": asked})
    resolve({"accelerator": asked, "pretraining": {"engine": "jax"}})


@pytest.mark.slow
def test_moments_that_are_divided_change_no_loss_and_no_file_of_a_state(root):
    """Over 2 × 2 devices, which gather them to save them; the state is gone on from.

    Muon has AdamW's moments for the embeddings, and one of its own.
    """
    change = {"optimizer": {"name": "muon"}}
    names = {False: "moments", True: "divided"}
    for divided, name in names.items():
        overrides = layout(2 if divided else 1, 2 if divided else 4)
        overrides["pretraining"] |= change | {"shard_optimizer": divided}
        trained(root, name, overrides)
    whole_losses, divided_losses = (losses(root, name) for name in names.values())
    np.testing.assert_allclose(divided_losses, whole_losses, rtol=2e-6)
    from safetensors.numpy import load_file

    stored = [
        load_file(next((root / "state" / name).glob("*/step-00000020/state.safetensors")))
        for name in names.values()
    ]
    assert stored[0].keys() == stored[1].keys()
    for name, value in stored[0].items():
        np.testing.assert_allclose(stored[1][name], value, atol=1e-3, err_msg=name)
    (root / "runs" / names[True] / "training.json").unlink()
    before = result(root, names[True])
    assert "resumes from step 20 of 20" in trained(root, names[True], overrides)
    assert result(root, names[True]) == before


#: A member that trains nothing and does as it is told.
PRETENDS = """
import os, signal, sys, time
sys.path.insert(0, {scripts!r})
from mlm.training.processes import one_of_several, steps_have_ended
with one_of_several():
    {does}
"""


def pretended(tmp_path, does: str, start: str = "here", count: int = 2) -> str:
    """What `run_together` raises where the members do so, or ""."""
    member = tmp_path / "member.py"
    member.write_text(PRETENDS.format(scripts=str(SCRIPTS), does=does))
    try:
        run_together(str(member), {}, count, start)
    except MlmError as error:
        return str(error)
    return ""


#: Does not look at SIGTERM, as one in a collective that never ends; and has its parent stopped.
STUCK = """signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for number, pause in {signals}:
        os.kill(os.getppid(), number)
        time.sleep(pause)
    time.sleep(60)"""


def test_processes_that_do_not_stop_are_killed_after_a_while_or_at_a_second_signal(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(processes, "_ONE_SIGNAL", 0.5)
    kept = "Nothing since the last saved state was kept; the same command resumes from it"
    # The first two are one: as a scheduler sends it to a whole job.
    signals = [(15, 0), (15, 1), (2, 0)]
    said = pretended(tmp_path, STUCK.format(signals=signals), count=1)
    assert said.startswith("Stopped by SIGTERM, and the processes were killed, since a second")
    assert "came, SIGINT" in said and kept in said
    monkeypatch.setattr(processes, "_TO_STOP", 0.5)
    said = pretended(tmp_path, STUCK.format(signals=[(15, 0)]), count=1)
    assert "killed, since they had not ended after 0 s" in said and kept in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_outside_of_the_steps_is_told_as_such(tmp_path, number, capfd, monkeypatch):
    """Also one to processes in which Python has hardly begun."""
    before = f"Stopped by {number.name} before the first step; nothing was saved"

    def stopped_early(*of, start=processes._started):
        process = start(*of)
        for to in (process.pid, os.getpid())[number != 2 :]:
            os.kill(to, number)
        return process

    with monkeypatch.context() as early:
        early.setattr(processes, "_started", stopped_early)
        assert pretended(tmp_path, "time.sleep(60)") == before
    # A terminal's Ctrl-C reaches all of them.
    stops = f"""for to in (os.getpid(), os.getppid())[{number} != 2:]:
        os.kill(to, {number})
    time.sleep(60)"""
    assert pretended(tmp_path, stops, count=1) == before
    said = pretended(tmp_path, f"steps_have_ended(); {stops}".replace("; for", "\n    for"))
    assert said.startswith(f"Stopped by {number.name} after the last step, before all results")
    assert "Traceback" not in capfd.readouterr().err


def test_the_first_process_alone_prints_and_each_says_why_it_ends(tmp_path, capfd):
    speaks = """index = os.environ["JAX_PROCESS_ID"]
    print(f"a line of {{index}}", file=sys.stderr)
    if index == "1": raise RuntimeError("nobody foresaw this")"""
    said = pretended(tmp_path, speaks.replace("{{", "{").replace("}}", "}"))
    assert "Traceback" in said and "nobody foresaw this" in said
    assert capfd.readouterr().err.splitlines() == ["a line of 0"]


def test_the_port_on_which_they_meet_is_given_to_no_other(tmp_path):
    """JAX's service takes it all the same, as the trainings below show."""
    takes = """where = os.environ["JAX_COORDINATOR_ADDRESS"].rsplit(":", 1)
    import socket
    shared = socket.socket()
    shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    shared.bind((where[0], int(where[1])))
    shared.close()
    try:
        socket.socket().bind((where[0], int(where[1])))
    except OSError as error:
        sys.exit(0 if error.errno == 98 else 7)
    sys.exit(8)"""
    assert pretended(tmp_path, takes, count=1) == ""


def test_advice_on_joining_names_what_the_user_can_set():
    member = Member("10.0.0.1:8476", 2, 1)
    for start, said in (("here", "this machine"), ("srun", "every node of the job reaches 10.0")):
        advice = processes.advice_on_joining(member, {"MLM_STARTED_TOGETHER": start})
        assert said in advice and "JAX_" not in advice
    for given in (member, Member()):
        advice = processes.advice_on_joining(given, {"MLM_STARTED_TOGETHER": "hosts"})
        assert COORDINATOR in advice


def members_of(process: subprocess.Popen) -> list[psutil.Process]:
    """The processes that the job has started, the one that leads first."""
    found = psutil.Process(process.pid).children()
    return sorted(found, key=lambda member: member.environ()[INDEX])


def until(process: subprocess.Popen, log: Path, condition) -> None:
    end = time.monotonic() + 240
    while not condition():
        assert process.poll() is None and time.monotonic() < end, log.read_text()[-4000:]
        time.sleep(0.02)


@pytest.mark.slow
def test_five_kills_of_one_process_at_random_moments_change_nothing(root):
    """The others end with it, in words, and the same command resumes."""
    overrides = layout(2, 1)
    overrides["pretraining"] |= {"per_replica_batch_size": 4, "steps": 120, "log_every": 10}
    overrides["pretraining"]["checkpoint"] = {"every": 2}
    moments, log = random.Random(5), root / "killed.log"

    def newest() -> int:
        states = (root / "state" / "killed").glob("*/step-????????/complete.json")
        return max((int(s.parent.name[5:]) for s in states), default=-1)

    for number, step in enumerate((0, 7, 14, 21, 28)):
        # Of its own: what it resumes from is there before it begins.
        least = max(step, newest())
        process = job(request_of(root, "killed", overrides), log)
        until(process, log, lambda least=least: newest() > least)
        time.sleep(moments.random() / 2)
        victim = moments.randrange(2)
        members_of(process)[victim].kill()
        process.wait(60)
        said = log.read_text()
        assert process.returncode == 3, said[-4000:]
        lost = f"lost: process {victim} of 2 has ended with SIGKILL. The same command resumes"
        assert said.count("MlmError:") == number + 1
        assert lost in said.split("MlmError:")[-1]
    trained(root, "killed", overrides)
    goes_on = re.findall(r"killed: resumes from step (\d+)", log.read_text())
    assert len(goes_on) == 5 and sorted(map(int, goes_on)) == list(map(int, goes_on))
    trained(root, "left-alone", overrides)
    assert result(root, "killed") == result(root, "left-alone")


@pytest.mark.slow
def test_several_processes_continue_another_training_as_one_would(root):
    """From a state of the run, the same training ends in its bytes."""
    one, overrides = whole(root, 2, 2), layout(2, 2)
    (kept,) = (root / "state" / one).glob("*/step-00000015")
    assert kept.is_dir()
    start = {"pretraining": {"continue_from": {"run": one, "step": 15}}}
    request = request_of(root, "branch", overrides | {"runs": {"base": start, one: {}}})
    request["config"]["parent"] = request_of(root, one, layout(2, 2))["config"]
    log = root / "branch.log"
    assert job(request, log).wait(300) == 0, log.read_text()[-4000:]
    assert f"branch: continues run {one}" in log.read_text()
    assert result(root, "branch") == result(root, one)


#: A member of which one process finds its disk full at step 15.
FULL = """
import errno, os, sys
sys.path.insert(0, {scripts!r} + "/jobs")
import job_adapter, pretrain
from mlm.training.processes import one_of_several
from mlm.training.training_log import TrainingProgress
begin = TrainingProgress.begin
def full(self, step):
    begin(self, step)
    if step == 15 and os.environ["JAX_PROCESS_ID"] == "{failing}":
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")
TrainingProgress.begin = full
with one_of_several() as request:
    pretrain.train(request)
"""


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_that_nobody_foresaw_ends_all_processes(root, tmp_path, failing):
    member = tmp_path / "member.py"
    member.write_text(FULL.format(scripts=str(SCRIPTS), failing=failing))
    said = trained(root, f"full-{failing}", layout(2, 1), status=3, member=member)
    assert "MlmError: No space left on the disk or in the quota (somewhere)." in said


@pytest.mark.slow
def test_a_signal_to_the_job_saves_a_state_and_ends_all(root):
    overrides = layout(2, 2)
    overrides["pretraining"] |= {"steps": 5000, "checkpoint": {"every": 5000}}
    log = root / "stopped.log"
    process = job(request_of(root, "stopped", overrides), log)
    until(process, log, lambda: "step 1/5000" in log.read_text())
    process.terminate()
    process.wait(60)
    (step,) = re.findall(r"MlmError: Stopped by SIGTERM after step (\d+) of 5000", log.read_text())
    states = [path.parent.name for path in (root / "state/stopped").glob("*/*/complete.json")]
    assert states == [f"step-{int(step):08d}"]
    # Another job on the same directory, while this test holds it as a training does.
    lock = FileLock(str(next((root / "state" / "stopped").iterdir())))
    said = trained(root, "stopped", overrides, status=3)
    lock.release()
    assert "is in use: another process trains this very run" in said
    assert said.count("MlmError:") == 2


@contextmanager
def on_hosts(root: Path, requests: list[dict], **others):
    """The same job once for each host, started by nobody but its launcher, in a row."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    started = []
    for index, request in enumerate(requests):
        given = {COORDINATOR: address, COUNT: "2", INDEX: str(index)}
        started.append(job(request, root / f"host-{index}.log", environment=given | others))
    try:
        yield started
    finally:
        for process in started:
            process.kill()


HOSTS = layout(2, 2, start="hosts", join_seconds=90)


@pytest.mark.slow
def test_on_hosts_each_command_writes_the_same_results(root):
    """And those of two processes that one job has started here."""
    requests = [request_of(root, name, HOSTS) for name in ("host-0", "host-1")]
    for request in requests:
        request["config"]["name"] = "hosts"
    with on_hosts(root, requests) as started:
        ended = [process.wait(240) for process in started]
    assert ended == [0, 0], [(root / f"host-{i}.log").read_text()[-2000:] for i in (0, 1)]
    alone = result(root, whole(root, 2, 2))
    assert result(root, "host-0") == result(root, "host-1") == alone
    cards = [(root / "runs" / f"host-{i}" / "training.json").read_bytes() for i in (0, 1)]
    assert cards[0] == cards[1]


@pytest.mark.slow
def test_hosts_of_other_settings_are_refused_before_the_first_step(root):
    other = {"pretraining": HOSTS["pretraining"] | {"seed": 7}}
    requests = [request_of(root, "differs", o) for o in (HOSTS, HOSTS | other)]
    requests[1]["config"]["parent"] = request_of(root, "before", HOSTS)["config"]
    requests[1]["config"]["pretraining"]["continue_from"] = {"run": "before", "step": 5}
    with on_hosts(root, requests) as started:
        assert [process.wait(120) for process in started] == [3, 3]
    for index in (0, 1):
        said = (root / f"host-{index}.log").read_text()
        assert "process 1: settings.seed: 0 in process 0, 7 there" in said
        assert "process 1: continue_from." in said and "the run that is continued: None in" in said
    assert not (root / "state" / "differs").exists()


@pytest.mark.slow
def test_others_that_do_not_come_are_said_by_whoever_waits(root):
    alone = layout(2, 2, start="hosts", join_seconds=6)
    with on_hosts(root, [request_of(root, "waits", alone)]) as started:
        assert started[0].wait(60) == 3
    said = (root / "host-0.log").read_text()
    assert re.search(r"only some of 2 processes came to 127\S+ within 6 s", said)
    given = {COORDINATOR: "127.0.0.1:9", COUNT: "2", INDEX: "1"}
    log = root / "second.log"
    process = job(request_of(root, "waits", alone), log, environment=given)
    assert process.wait(60) == 3
    expected = "the first process was not reached at 127.0.0.1:9 by process 1 of 2 within 6 s"
    assert expected in log.read_text()


@pytest.mark.slow
def test_a_state_of_other_devices_is_gone_on_from_where_that_is_asked_for(root):
    one = whole(root, 1, 4)
    shutil.copytree(root / "state" / one, root / "state" / "moves")
    (last,) = (root / "state" / "moves").glob("*/step-00000020")
    shutil.rmtree(last)
    said = trained(root, "moves", layout(2, 2), status=3)
    assert "holds a state after step 15 of this training on 4 devices of 1 process" in said
    assert "here are 4 devices of 2 processes" in said
    assert "set accelerator.continue_on_other_devices: true" in said
    said = trained(root, "moves", layout(2, 2, continue_on_other_devices=True))
    assert "moves: resumes from step 15 of 20" in said
    np.testing.assert_allclose(losses(root, "moves"), losses(root, one), rtol=2e-6)
    found = read_json(root / "runs" / "moves" / "training.json")
    assert found["devices_before"] == [{"step": 15, "replicas": 4, "processes": 1}]
    card = (root / "runs" / "moves" / "model" / "README.md").read_text()
    assert "up to step 15 on 4 devices of 1 process" in card


def test_a_state_of_other_batches_is_refused_with_the_size_that_fits(tmp_path):
    from mlm.training.other_devices import newest_first
    from mlm.training.states import StateDirectory

    def states(replicas: int, batch: int) -> StateDirectory:
        settings = {"optimizer": {"gradient_accumulation_steps": 1}}
        settings["per_replica_batch_size"] = batch
        return StateDirectory.of(
            str(tmp_path), 2, {"device": {"replicas": replicas}, "settings": settings}
        )

    before = states(4, 2)
    place = Path(before.path) / "step-00000010"
    place.mkdir(parents=True)
    marker = {"fingerprint": before.fingerprint, "basis": before.basis, "files": {}}
    (place / "complete.json").write_text(json.dumps(marker))
    said = "took 8 samples there and would take 4 here.*per_replica_batch_size: 4 and"
    with pytest.raises(MlmError, match=said):
        list(newest_first(states(2, 2), True))
    found = [one.path for one in newest_first(states(2, 4), True)]
    assert found == [before.path, states(2, 4).path]
