import gzip
import json
import os
import random
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import ended

from mlm.check import rehearsed_data
from mlm.check.check import (
    Forecast,
    check,
    judge_machine,
    own_updates,
    show,
    stages_of_run,
    together,
)
from mlm.check.rehearsed_data import Size, Stage, rehearse_data, usable_cores
from mlm.check.rehearsed_finetuning import Examples
from mlm.check.rehearsed_steps import Steps, estimated_size
from mlm.config.resolution import RunConfiguration, resolve
from mlm.corpus.embedded_corpus import paragraphs, speeches
from mlm.foundations.errors import MlmError
from mlm.tokenizer.encoding import Encoder


@pytest.fixture(scope="module")
def texts():
    found = [text for speech in speeches().values() for text in paragraphs(speech)]
    random.Random(0).shuffle(found)
    return [text.replace("\n", " ") for text in found]


def of_files(pattern, **others):
    return resolve({"corpus": {"source": "files", "files": {"train": [pattern]}}, **others})


SMALL = {"tokenizer": {"vocabulary_size": 600}}


def test_a_vocabulary_too_large_is_told_with_one_that_works(here, texts):
    (here / "small.txt").write_text("\n".join(texts[:600]))
    forecast = check(of_files("small.txt", tokenizer={"vocabulary_size": 16_000}))
    assert len(forecast.problems) == 1 and not forecast.stages
    assert "too small for tokenizer.vocabulary_size: 16000" in forecast.problems[0]
    with pytest.raises(MlmError, match="1 thing to change"):
        show(forecast)
    proposed = int(forecast.problems[0].split("set ")[1].split()[0])
    settings = of_files("small.txt", tokenizer={"vocabulary_size": proposed})
    assert rehearse_data(settings, here).sizes["train"].tokens > 1000


def test_a_text_that_is_unknown_to_its_tokenizer_is_a_problem(here):
    (here / "dna.txt").write_text("\n".join(f"{i:010b}" * 40 for i in range(300)))
    forecast = check(of_files("dna.txt", tokenizer={"kind": "wordpiece"}))
    assert "more than 200 characters" in forecast.problems[0] and not forecast.stages


@pytest.mark.parametrize(
    "pattern, words",
    [("data/*.txt", "no file matches 'data/\\*.txt'"), ("broken.jsonl", "broken.jsonl")],
)
def test_a_corpus_that_is_not_there_or_unreadable_is_a_problem(here, pattern, words):
    (here / "broken.jsonl").write_text('{"text": "good"}\n{"text": \n')
    forecast = check(of_files(pattern))
    assert len(forecast.problems) == 1 and not forecast.stages
    with pytest.raises(MlmError, match=words):
        show(forecast)


def test_of_a_small_corpus_the_documents_after_deduplication_are_known(here, texts):
    (here / "twice.txt").write_text("\n".join(texts[:500] + texts[:200] + texts[:100]))
    data = rehearse_data(of_files("twice.txt", **SMALL), here)
    kept = set(texts[:500])
    assert data.whole and sum(size.documents for size in data.sizes.values()) == len(kept)


@pytest.mark.parametrize("ending", ["txt", "jsonl.gz", "csv", "parquet"])
def test_the_size_of_a_large_corpus_is_seen_from_parts_of_it(here, texts, monkeypatch, ending):
    monkeypatch.setattr(rehearsed_data, "READ_WHOLE", 1000)
    path = here / f"text.{ending}"
    if ending == "txt":
        path.write_text("\n".join(texts))
    elif ending == "parquet":
        pq.write_table(pa.table({"text": texts}), path)
    elif ending == "csv":
        path.write_text("text\n" + "\n".join('"' + x.replace('"', '""') + '"' for x in texts))
    else:
        rows = "\n".join(json.dumps({"text": text, "other": 1}) for text in texts)
        path.write_bytes(gzip.compress(rows.encode(), 1))
    data, kept = rehearse_data(of_files(path.name, **SMALL), here), set(texts)
    assert not data.whole
    expected = sum(len(text.encode()) for text in kept)
    sizes = data.sizes.values()
    assert sum(size.text for size in sizes) == pytest.approx(expected, rel=0.2)
    assert sum(size.documents for size in sizes) == pytest.approx(len(kept), rel=0.2)
    assert data.sizes["test"].text == pytest.approx(0.05 * expected, rel=0.5)


def labelled(rows):
    Path("reviews.csv").write_text("\n".join(["id,excerpt,target", *rows]))
    data = {"source": "csv", "file": "reviews.csv"}
    return {"finetune": {"task": "classification", "data": data, "folds": 2, "epochs": 3}}


def test_examples_that_cannot_be_read_are_a_problem_beside_those_of_the_corpus(here):
    task = labelled(["1,good film,yes", "2,bad film", "3,good,no"])
    problems = check(of_files("none/*.txt", **task)).problems
    assert len(problems) == 2 and "reviews.csv, row 2" in problems[0] and "none/" in problems[1]


def test_examples_are_counted_and_measured_as_a_fine_tuning_reads_them(here, texts):
    (here / "small.txt").write_text("\n".join(texts[:600]))
    rows = [f'{i},"{"the people " * (200 * (i < 2))}of {i}",{"ab"[i % 2]}' for i in range(8)]
    settings = of_files("small.txt", **SMALL, **labelled(rows))
    examples = Examples.read(settings, here)
    assert "8 examples of reviews.csv in 2 classes (a 4, b 4)" in examples.in_words()
    rehearse_data(settings, here)
    encoder = Encoder.load(here / "results/tokenizer/tokenizer.json")
    assert "64 tokens of an example; 25.0% have more" in examples.truncated(
        run_in(settings), encoder
    )
    # Two starts of two folds, each with half of the examples for three epochs, and two seeds.
    stage, steps = examples.stage(run_in(settings), 100.0), 2 * 2 * 2 * 4 * 3
    assert steps * 100 / usable_cores() < stage.seconds < 1.5 * steps * 100
    assert Examples.read(of_files("small.txt"), here) is None


def steps(**others):
    settings = resolve({})
    return Steps(1, estimated_size(settings, run_in(settings)), **others)


SIZES = {
    "train": Size(11e6, 20_000, 2.4e6, 37_500),
    "validation": Size(5e5, 1000, 1e5, 1600),
    "test": Size(5e5, 1000, 1e5, 1600),
}


def run_in(settings, name="base"):
    return RunConfiguration.of(settings, name)


@pytest.mark.parametrize("keep, states", [({"keep_steps": [150]}, 3), ({"keep": None}, 34)])
def test_models_and_kept_states_are_counted(keep, states):
    settings = resolve({"pretraining": {"checkpoint": {"every": 100, **keep}}})
    trained, _ = stages_of_run(settings, run_in(settings), SIZES, steps(parameters=100))
    assert trained.disk == 400 * (2 + 3 * states)


def test_updates_follow_from_what_the_configuration_and_the_corpus_say():
    epochs = run_in(resolve({"pretraining": {"epochs": 2}}))
    assert own_updates(epochs, SIZES, 1) == 1172
    assert own_updates(epochs, None, 1) is None
    assert own_updates(run_in(resolve({})), None, 1) == 3400
    with pytest.raises(MlmError, match="one step takes 40,000 samples"):
        own_updates(epochs.with_values(pretraining={"per_replica_batch_size": 40_000}), SIZES, 1)


def test_a_step_s_time_is_that_of_all_steps_and_grows_with_the_model():
    settings = resolve({"runs": {"base": {}, "wide": {"model": {"config": {"hidden_size": 256}}}}})
    batch = run_in(settings).pretraining.per_replica_batch_size
    timed = steps(step=1.0 / batch)
    trained = {
        name: stages_of_run(settings, run_in(settings, name), SIZES, timed)[0].seconds
        for name in ("base", "wide")
    }
    assert 3400 < trained["base"] < 3500 and 2 < trained["wide"] / trained["base"] < 4


def test_what_is_not_known_is_said_and_not_guessed():
    settings = resolve({"pretraining": {"epochs": 1}})
    stages = stages_of_run(settings, run_in(settings), None, steps())
    assert [stage.seconds for stage in stages] == [None, None]
    total = together(stages)
    assert total.seconds is None and total.disk is None


@pytest.mark.slow
def test_a_tpu_that_is_not_here_is_left_to_the_preflight(here, texts):
    """In a process of its own: TensorFlow takes its number of threads once."""
    (here / "small.txt").write_text("\n".join(texts[:2000]))
    program = """
from mlm.check.check import check
from mlm.config.resolution import resolve
corpus = {"source": "files", "files": {"train": ["small.txt"]}}
given = {"corpus": corpus, "tokenizer": {"vocabulary_size": 600}, "accelerator": {"kind": "tpu"}}
forecast = check(resolve(given | {"pretraining": {"per_replica_batch_size": 4}}))
assert "snakemake --cores 2 preflight" in forecast.warnings[0] and not forecast.problems
"""
    scripts = str(Path(__file__).parents[2] / "scripts")
    ended(sys.executable, "-c", program, env=os.environ | {"PYTHONPATH": scripts})


@pytest.mark.parametrize(
    "memory_mb, free, words",
    [
        (1, 10**12, None),
        (1, 120_000_000, "120 MB free, and about 200 MB are needed"),
        (10**8, 10**12, r"pretrain \[base\]: needs about 100 TB of memory"),
    ],
)
def test_a_full_disk_and_too_little_memory_are_told_before_anything_is_written(
    here, monkeypatch, capsys, memory_mb, free, words
):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    stages = [Stage("pretrain [base]", 1, 1e8, memory_mb), Stage("in all", 1, 1e8)]
    forecast = Forecast(stages=stages)
    judge_machine(resolve({}), forecast)
    if words is None:
        show(forecast)
        assert "No problem was found" in capsys.readouterr().out
    else:
        with pytest.raises(MlmError, match=words):
            show(forecast)
