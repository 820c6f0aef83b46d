import json
import os
import sys
from functools import partial
from pathlib import Path

import pytest
from loaded_script import loaded
from tests.conftest import ended

from mlm.evaluation.artefacts import FilledToken, Prompt
from mlm.foundations.artefacts import write_artefact
from mlm.foundations.command_line import status_of
from mlm.foundations.errors import HIDDEN
from mlm.foundations.job import record_job

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def model(tmp_path):
    """A directory with files that stand for the model of run base, as they were recorded."""
    results = tmp_path / "results" / "runs" / "base"
    (results / "model").mkdir(parents=True)
    (results / "model" / "model.safetensors").write_bytes(b"weights")
    (results / "model" / "config.json").write_text("{}")
    write_artefact(results / "training.json", {"run": "base"})
    record_job("keep_model", {}, {}, map(str, [results / "training.json", *results.glob("*/*")]))
    return results / "model"


@pytest.fixture
def fill(here, monkeypatch):
    def answers(directory, prompts, top_k, cpu_threads, setting):
        answer = FilledToken(token="people", sequence="the people", score=0.75)
        return [Prompt(prompt, [answer] * top_k) for prompt in prompts]

    monkeypatch.setattr("mlm.evaluation.fill_mask.answers", answers)
    return partial(status_of, "fill.py", loaded("fill").main)


def test_every_sentence_is_answered(fill, model, capsys):
    assert fill(["A [MASK].", "[MASK] b.", "--top-k", "2"]) == 0
    answer = "   75.0%  people\n"
    assert capsys.readouterr().out == f"A [MASK].\n{2 * answer}[MASK] b.\n{2 * answer}"
    assert fill(["A [MASK].", "--json", "--run", "base", "--top-k", "1"]) == 0
    answers = [{"token": "people", "sequence": "the people", "score": 0.75}]
    expected = [{"prompt": "A [MASK].", "answers": answers}]
    assert json.loads(capsys.readouterr().out) == expected


@pytest.mark.parametrize(
    "options, words",
    [
        (["--run", "wide"], "--run 'wide'"),
        (["--run", "\x1b[31m"], r"--run '\x1b[31m'"),
        (["--run", ""], "--run '': no such run"),
        ([], "results/runs/base/model: no model is there yet"),
        (["--directory", "nowhere"], "--directory nowhere: there is no such directory"),
        (["--config", "seed=x"], "seed: found 'x'"),
    ],
)
def test_where_there_is_no_model_that_is_said(fill, options, words, capsys):
    assert fill(["A [MASK].", *options]) == 1
    assert words in capsys.readouterr().err


def test_after_a_forgotten_configfile_the_trained_runs_are_named(fill, model, capsys):
    model.parent.rename(model.parent.with_name("wide"))
    assert fill(["A [MASK]."]) == 1
    assert "Trained here: wide" in capsys.readouterr().err
    assert fill(["A [MASK].", "--run", "wide"]) == 1
    assert "--configfile" in capsys.readouterr().err


def test_a_damaged_model_is_not_asked(fill, model, capsys):
    (model / "model.safetensors").write_bytes(b"weightz")
    assert fill(["A [MASK]."]) == 1
    assert "results/runs/base/model/model.safetensors is damaged" in capsys.readouterr().err


def test_what_a_model_answers_cannot_control_the_terminal(fill, model, capsys):
    for options in [], ["--json"]:
        assert fill(["A [MASK] \x1b[31m \x9b \u202e.", *options]) == 0
        assert not HIDDEN.search(capsys.readouterr().out)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_lacks_is_printed_as_escapes(encoding):
    program = """
from mlm.foundations.command_line import print_json, run_command
from mlm.foundations.errors import MlmError
def main(_):
    print_json(["\u010d\u202e", "\xe9"])
    print("\u010d")
    raise MlmError("\u2026")
run_command("x", main)"""
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(SCRIPTS)}
    done = ended(sys.executable, "-c", program, status=1, encoding=encoding, env=environment)
    assert done.stderr == "x: \\u2026\n"
    *answer, last = done.stdout.splitlines()
    assert json.loads("".join(answer)) == ["\u010d\u202e", "\xe9"] and last == "\\u010d"
