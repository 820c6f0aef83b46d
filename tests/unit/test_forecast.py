"""What target `check` says of a corpus, a tokenizer and a machine, from a sample."""

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlm.check import check as checking
from mlm.check import sampled_text
from mlm.check.check import Answer, check, show
from mlm.check.data_rehearsal import DataMeasured
from mlm.check.estimate import Size, Stage, stages_of_run, together, updates
from mlm.check.stopwatch import Took, alone
from mlm.check.training_rehearsal import TrainingMeasured
from mlm.config.resolution import resolve
from mlm.corpus.embedded import paragraphs, speeches
from mlm.foundations.errors import MlmError


@pytest.fixture(scope="module")
def texts():
    found = [text for speech in speeches().values() for text in paragraphs(speech)]
    random.Random(0).shuffle(found)
    return found


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_files(pattern, **others):
    return resolve({"corpus": {"source": "files", "files": {"train": [pattern]}}, **others})


def cut(texts, size):
    """The first texts, of `size` characters in all."""
    found, length = [], 0
    for text in texts:
        if (length := length + len(text)) > size:
            return found
        found.append(text)


def test_a_vocabulary_too_large_is_told_with_one_that_works(here, texts):
    (here / "small.txt").write_text("\n".join(cut(texts, 260_000)))
    answer = check(of_files("small.txt", tokenizer={"vocabulary_size": 16_000}), {})
    assert len(answer.problems) == 1
    assert answer.problems[0].startswith("tokenizer.vocabulary_size: 16,000 is more than")
    proposed = int(answer.problems[0].split("(")[1].split(",")[0] + "000")
    assert 500 <= proposed <= 5000
    assert not check_problems_of_data(
        of_files("small.txt", tokenizer={"vocabulary_size": proposed})
    )
    with pytest.raises(MlmError, match="1 thing to change"):
        show(answer)


def check_problems_of_data(settings):
    """The problems that are found before anything is trained."""
    found = []
    stop = RuntimeError("no training in this test")

    def no_training():
        raise stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlm.check.check.slowness", no_training)
        try:
            found += check(settings, {}).problems
        except RuntimeError as error:
            assert error is stop
    return found


def test_how_slow_this_machine_is_is_measured_before_the_framework_is_there():
    # Half is what an import that is there already looks like.
    scripts = str(Path(__file__).parents[2] / "scripts")
    found = subprocess.run(
        [sys.executable, "-c", "from mlm.check.check import slowness; print(slowness())"],
        env=os.environ | {"PYTHONPATH": scripts},
        capture_output=True,
        text=True,
        check=True,
    )
    assert 0.5 < float(found.stdout) <= 4


@pytest.mark.parametrize(
    "pattern, words",
    [("data/*.txt", "no file matches 'data/\\*.txt'"), ("broken.jsonl", "broken.jsonl")],
)
def test_a_corpus_that_is_not_there_or_unreadable_is_a_problem(here, pattern, words):
    (here / "broken.jsonl").write_text('{"text": "good"}\n{"text": \n')
    answer = check(of_files(pattern), {})
    assert len(answer.problems) == 1 and not answer.stages
    with pytest.raises(MlmError, match=words):
        show(answer)


@pytest.mark.parametrize("ending", ["txt", "jsonl", "jsonl.gz", "csv", "parquet"])
def test_the_size_of_a_large_corpus_is_seen_from_parts_of_it(here, texts, monkeypatch, ending):
    monkeypatch.setattr(sampled_text, "READ_WHOLE", 1000)
    lines = [text.replace("\n", " ") for text in texts]
    path = here / f"text.{ending}"
    if ending == "txt":
        path.write_text("\n".join(lines))
    elif ending == "parquet":
        pq.write_table(pa.table({"text": lines}), path)
    elif ending == "csv":
        path.write_text("text\n" + "\n".join('"' + x.replace('"', '""') + '"' for x in lines))
    else:
        rows = "\n".join(json.dumps({"text": line, "other": 1}) for line in lines).encode()
        path.write_bytes(gzip.compress(rows, 1) if ending.endswith("gz") else rows)
    found = sampled_text.sampled_text(of_files(path.name)["corpus"], 0)
    assert sum(found.bytes.values()) == pytest.approx(
        sum(map(len, map(str.encode, lines))), rel=0.1
    )
    assert sum(found.counts.values()) == pytest.approx(len(lines), rel=0.1)
    assert found.bytes["test"] == pytest.approx(0.05 * sum(found.bytes.values()))
    assert 100_000 < sum(len(d.text) for d in found.documents) < 3e6


def measured(**others):
    return TrainingMeasured("cpu", 1, 64, 1.0, **others)


SIZES = {
    "train": Size(11e6, 20_000, 2.4e6, 37_500),
    "validation": Size(5e5, 1000, 1e5, 1600),
    "test": Size(5e5, 1000, 1e5, 1600),
}
DATA = DataMeasured(None, {}, text_bytes=1_000_000)


def test_models_and_kept_states_are_counted():
    settings = resolve({"pretraining": {"checkpoint": {"every": 100, "keep_steps": [150]}}})
    training = measured(state_bytes=1000, model_bytes=100)
    trained, _ = stages_of_run(settings, "base", SIZES, DATA, training, 1.0)
    assert trained.disk == 3 * 1000 + 2 * 100
    settings = resolve({"pretraining": {"checkpoint": {"every": 100, "keep": "all"}}})
    trained, _ = stages_of_run(settings, "base", SIZES, DATA, training, 1.0)
    assert trained.disk == 24 * 1000 + 2 * 100


def test_updates_follow_from_what_the_configuration_and_the_corpus_say():
    epochs = resolve({"pretraining": {"epochs": 2}})
    assert updates(epochs, "base", SIZES, 64) == 1172
    assert updates(epochs, "base", None, 64) is None
    assert updates(resolve({}), "base", None, 64) == 2400
    with pytest.raises(MlmError, match="one step takes 40,000 samples"):
        updates(epochs, "base", SIZES, 40_000)


def test_a_step_s_time_is_that_of_all_steps_and_runs_side_by_side_share_the_clock():
    settings = resolve({"runs": {"a": {}, "b": {"pretraining": {"seed": 1}}}})
    training = measured(step=Took(1.0, 2.0))
    of_runs = [
        stage for run in "ab" for stage in stages_of_run(settings, run, SIZES, DATA, training, 1.0)
    ]
    assert of_runs[0].took.seconds == pytest.approx(2400, rel=0.05)
    two, four = (together(settings, of_runs, 1.0, cores).took.seconds for cores in (2, 4))
    assert two == pytest.approx(4800, rel=0.05) and four == pytest.approx(two / 2, rel=0.05)


def test_what_is_not_known_is_said_and_not_guessed():
    settings = resolve(
        {
            "corpus": {"source": "hub", "hub": {"dataset": "a/b", "revision": "0" * 40}},
            "pretraining": {"epochs": 1},
        }
    )
    stages = stages_of_run(settings, "base", None, DATA, measured(), 1.0)
    assert [stage.took for stage in stages] == [None, None]
    total = together(settings, stages, 1.0, 2)
    assert total.took is None and total.disk is None


def test_a_tpu_that_is_not_here_is_left_to_the_preflight(monkeypatch):
    settings = resolve({"accelerator": {"kind": "tpu"}})
    monkeypatch.setattr(checking, "local_tpu", lambda: None)
    answer = Answer()
    assert checking._training(settings, "base", DATA, None, answer) is None
    assert "snakemake --cores 2 preflight" in answer.warnings[0] and not answer.problems


@pytest.mark.parametrize("free, fits", [(10**12, True), (120_000_000, False)])
def test_a_full_disk_is_told_before_anything_is_written(here, monkeypatch, capsys, free, fits):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 0, free))
    answer = Answer(stages=[Stage("pretrain [base]", alone(1.0), 1e8, 4000)])
    answer.total = Stage("in all", alone(1.0), 1e8)
    checking._judge_machine(resolve({}), answer, 2)
    assert bool(answer.problems) is not fits
    if fits:
        show(answer)
        assert "Nothing was found that stands in the way" in capsys.readouterr().out
    else:
        with pytest.raises(MlmError, match=r"120 MB free, and about 200 MB are needed"):
            show(answer)


def test_a_model_beyond_the_memory_is_told(here):
    answer = Answer(stages=[Stage("pretrain [base]", alone(1.0), 1e6, 10**8)])
    answer.total = Stage("in all", alone(1.0), 1e6)
    checking._judge_machine(resolve({}), answer, 2)
    assert "pretrain [base]: needs about 100 TB of memory" in answer.problems[0]


def test_what_a_stopped_training_left_is_told_and_not_the_model_in_use(here):
    of_other_settings = here / "state/base/b/step-00000900"
    for state in (of_other_settings, here / "state/base/a/step-00000141"):
        state.mkdir(parents=True)
    (of_other_settings / "weights").write_bytes(bytes(3_000_000))
    os.utime(of_other_settings, (1, 1))
    stage = Stage("pretrain [base]", alone(1.0), 1e6)
    answer = Answer(stages=[stage], total=Stage("in all", alone(1.0), 1e6))
    made = {"pretrain [base]": ["results/runs/base/trained/training.json"]}
    checking._say_what_is_there(resolve({}), made, answer)
    checking._judge_machine(resolve({}), answer, 2)
    assert stage.there == "a state of step 141"
    assert "1 MB for a run from nothing; results/ and state/ hold 3 MB by now" in answer.lines[0]
