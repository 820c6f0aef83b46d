"""A state belongs to the code that computes: an edit elsewhere throws no training away."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_run import LENGTH, result, small_run, told, write_inputs

from mlm.foundations.code_digests import code_digests
from mlm.foundations.digests import FileMemory
from mlm.training import state_fingerprint
from mlm.training.local_devices import Devices
from mlm.training.states import StateDirectory

SCRIPTS = Path(__file__).parents[2] / "scripts"
TRAIN = "import json, small_run, sys; small_run.train_in_child(*json.loads(sys.argv[1]))"


class Library:
    """A copy of the library that a test may edit, and trainings that run it."""

    def __init__(self, root: Path):
        self.root, self.scripts = root, root / "scripts"
        shutil.copytree(SCRIPTS, self.scripts, ignore=shutil.ignore_patterns("__pycache__"))
        write_inputs(root)

    def edit(self, module: str, before: str, after: str) -> None:
        file = self.scripts / "mlm" / "training" / module
        text = file.read_text()
        assert text.count(before) == 1, (module, before)
        file.write_text(text.replace(before, after))

    def train(self, name: str, **fault) -> tuple[int, str]:
        """Train in a new process; its exit status, and what it said."""
        (self.root / f"{name}.stderr").unlink(missing_ok=True)
        arguments = json.dumps([str(self.root), name, {}, fault])
        paths = os.pathsep.join([str(self.scripts), str(Path(__file__).parent)])
        ran = subprocess.run(
            [sys.executable, "-c", TRAIN, arguments], env=os.environ | {"PYTHONPATH": paths}
        )
        return ran.returncode, told(self.root, name)


@pytest.fixture
def library(tmp_path):
    return Library(tmp_path)


@pytest.mark.slow
def test_a_training_goes_on_and_stays_done_whatever_is_edited_around_it(library):
    assert library.train("whole")[0] == 0
    status, log = library.train("edited", step=11, signal=signal.SIGTERM)
    assert status == 3 and "Stopped by SIGTERM after step 12 of 40" in log

    # The story, the log lines and the states are edited half-way.
    library.edit("periodic_actions.py", ": compiled in ", ": ready to train after ")
    library.edit("loop.py", "the same command resumes", "the command resumes")
    library.edit("states.py", "is skipped:", "is not taken:")
    status, log = library.train("edited")
    assert status == 0, log
    assert "resumes from step 12 of 40" in log and "ready to train after" in log
    assert result(library.root, "edited") == result(library.root, "whole")

    # Another model card: made from the finished state, without a step.
    model = library.root / "runs" / "edited" / "model"
    card = (model / "README.md").read_text()
    shutil.rmtree(library.root / "runs" / "edited")
    library.edit("model_card.py", '"Tokens seen"', '"Tokens read"')
    status, log = library.train("edited")
    assert status == 0, log
    assert "resumes from step 40 of 40" in log and not re.search(r": step \d+/40", log)
    assert (model / "README.md").read_text() != card
    assert result(library.root, "edited") == result(library.root, "whole")

    # What computes is edited: the state is not taken, and the module is named.
    zero = "tf.constant(0.0, tf.float64)"
    library.edit("in_tensorflow/train_step.py", zero, f"{zero} + 0")
    status, log = library.train("edited", step=1, signal=signal.SIGTERM)
    assert status == 3 and "starts anew. States of other trainings are there" in log
    assert "code mlm.training.in_tensorflow.train_step is another" in log
    assert "restore those settings to resume, or delete them" in log


def asked(root: Path, overrides: dict | None = None, engine: str = "tensorflow", replicas=1):
    """A run, its files and its device: what its states are made from, beside code and packages."""
    devices = Devices(engine, None, "cpu", "float32", replicas, {})
    return *small_run(root, overrides, replicas), devices


def basis(*given, **how) -> dict:
    return state_fingerprint.state_basis(*asked(*given, **how))


@pytest.fixture(scope="module", autouse=True)
def code_that_is_remembered():
    """Each module is taken apart once, not once for each state and each edit of another."""
    memory = FileMemory(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            state_fingerprint, "code_digests", lambda *asked: code_digests(*asked, memory)
        )
        yield


@pytest.mark.parametrize("engine", ["tensorflow", pytest.param("jax", marks=pytest.mark.slow)])
def test_a_state_belongs_to_the_modules_that_compute_and_to_no_other(library, monkeypatch, engine):
    monkeypatch.setattr(state_fingerprint, "SCRIPTS", library.scripts)
    run = asked(library.root, engine=engine)
    before = state_fingerprint.state_basis(*run)
    modules = state_fingerprint.COMPUTING_MODULES
    computing = modules["both"] + modules[engine]

    def edit(module: str) -> None:
        with open(library.scripts / (module.replace(".", "/") + ".py"), "a") as file:
            file.write("\nEDITED = True\n")

    found = sorted((library.scripts / "mlm").rglob("[!_]*.py"))
    every = [".".join(f.relative_to(library.scripts).with_suffix("").parts) for f in found]
    for module in set(every) - set(computing):
        edit(module)
    assert state_fingerprint.state_basis(*run) == before
    # Each edit stays, so each must give what none before it gave.
    seen = [before]
    for module in computing:
        edit(module)
        seen.append(state_fingerprint.state_basis(*run))
        assert seen[-1] != seen[-2], module


def test_an_engine_that_changed_is_named_before_its_code(root, tmp_path):
    run = str(tmp_path / "run")
    before = StateDirectory.of(run, 1, basis(root))
    before.save(5, SimpleNamespace(write=lambda place: None), {})
    changes = {"pretraining": {"engine": "jax", "attend": "document"}}
    now = StateDirectory.of(run, 1, basis(root, changes, engine="jax"))
    engine, attend, *_ = now.difference(*now.others()).split("; ")
    assert engine == "pretraining.engine: 'tensorflow' then, 'jax' now"
    assert attend == "settings.attend: 'sample' then, 'document' now"


def test_a_state_belongs_to_every_value_that_its_bits_follow_from(root, monkeypatch):
    sections = [
        *({"steps": 41}, {"seed": 7}, {"per_replica_batch_size": 4}, {"shuffle_window": 50}),
        *({"masking": {name: value}} for name, value in (("slots", 3), ("whole_word", True))),
        *({"log_every": 10}, {"masking": {"random_token": 0.0}}, {"validation": {"samples": 40}}),
        *(
            {"optimizer": {"learning_rate": 0.01}},
            {"optimizer": {"gradient_accumulation_steps": 2}},
        ),
    ]
    found = [basis(root), basis(root, replicas=2)]
    found += [basis(root, {"pretraining": section}) for section in sections]
    monkeypatch.setattr(state_fingerprint, "package_versions", lambda names: dict.fromkeys(names))
    found.append(basis(root))
    assert len({json.dumps(one, sort_keys=True) for one in found}) == len(sections) + 3


@pytest.mark.parametrize(
    "section",
    [
        {"checkpoint": {"every": 3, "keep": 1}},
        {"steps": None, "tokens": 40 * 8 * LENGTH},
        {"seed": 0},
    ],
    ids=str,
)
def test_a_state_does_not_belong_to_what_comes_to_the_same(root, section):
    assert basis(root, {"pretraining": section}) == basis(root)
