import gzip
import json
import random
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mlm.check.check as checking
from mlm.check import rehearsed_data
from mlm.check.check import Forecast, Steps, check, judge_memory, own_updates, show
from mlm.check.rehearsed_data import Size, Stage, rehearse_data
from mlm.config.configuration import trainings
from mlm.config.evaluation import Evaluation
from mlm.config.finetune import Finetune
from mlm.config.overlays import resolve
from mlm.corpus.embedded_corpus import paragraphs, speeches
from mlm.foundations.errors import MlmError


@pytest.fixture(scope="module")
def texts():
    found = [text for speech in speeches().values() for text in paragraphs(speech)]
    random.Random(0).shuffle(found)
    return [text.replace("\n", " ") for text in found]


def of_files(pattern, **others):
    return resolve({"corpus": {"source": "files", "files": {"train": [pattern]}}, **others})


TEXT = "\n".join(f"Call me Ishmael, number {i}." for i in range(300))
DNA = "\n".join(f"{i:010b}" * 40 for i in range(300))
SMALL = {"tokenizer": {"vocabulary_size": 600}}


@pytest.mark.parametrize(
    "file, content, sections, words",
    [
        ("none.md", "", {}, "'*.txt'"),
        ("bad.txt", b"\xff\xfe\xfd" * 9, {}, "bad.txt"),
        ("small.txt", TEXT, {"tokenizer": {"vocabulary_size": 16_000}}, "vocabulary_size: 16000"),
        ("dna.txt", DNA, {"tokenizer": {"kind": "wordpiece"}}, "than wordpiece"),
    ],
)
def test_a_corpus_that_no_run_can_train_on_is_a_problem(here, file, content, sections, words):
    (here / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    forecast = check(of_files("*.txt", **sections))
    assert words in forecast.problems[0] and not forecast.stages
    with pytest.raises(MlmError, match="1 thing to change"):
        show(forecast)


def test_examples_that_cannot_be_read_are_a_problem_beside_those_of_the_corpus(here):
    task = labelled(["1,good film,yes", "2,bad film", "3,good,no"])
    problems = check(of_files("none/*.txt", **task)).problems
    assert len(problems) == 2 and "reviews.csv, row 2" in problems[0] and "none/" in problems[1]


def test_a_corpus_that_is_not_looked_at_is_said_to_be_unchecked():
    hub = {"dataset": "a/b", "revision": "a" * 40, "splits": {"train": "train"}}
    forecast = check(resolve({"corpus": {"source": "hub", "hub": hub}}))
    assert "hub, not looked at" in forecast.lines[0] and not forecast.stages


def test_of_a_small_corpus_the_documents_after_deduplication_are_known(here, texts):
    (here / "twice.txt").write_text("\n".join(texts[:500] + texts[:200] + texts[:100]))
    data = rehearse_data(of_files("twice.txt", **SMALL), here)
    kept = set(texts[:500])
    assert data.whole and sum(size.documents for size in data.sizes.values()) == len(kept)


@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet"])
def test_the_size_of_a_large_corpus_is_seen_from_parts_of_it(here, texts, monkeypatch, ending):
    monkeypatch.setattr(rehearsed_data, "READ_WHOLE", 1000)
    path = here / f"text.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"text": texts}), path)
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
    Path("reviews.csv").write_text("\n".join(["id,text,label", *rows]))
    data = {"source": "csv", "file": "reviews.csv"}
    return {"finetune": {"task": "classification", "data": data, "folds": 2, "epochs": 3}}


def test_sentences_whose_words_have_tags_are_counted_and_those_too_long_are_told(here):
    lines = (f"Call me Ishmael, number {i}, of ship {i * 7919 % 997}." for i in range(4000))
    (here / "small.txt").write_text("\n".join(lines))
    sentences = (f"{i} O\nIshmael B-PER" + "\nnumber O" * (i % 2 * 20) for i in range(10))
    (here / "names.conll").write_text("\n\n".join(sentences))
    data = {"source": "conll", "file": "names.conll"}
    task = {"task": "token_classification", "data": data, "folds": 2, "max_length": 16}
    small = {"config": {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}}
    sections = {"model": small, "tokenizer": {"vocabulary_size": 300}, "finetune": task}
    forecast = check(of_files("small.txt", pretraining={"engine": "jax"}, **sections))
    words = "Fine-tuning: 10 examples of names.conll in 2 classes."
    assert not forecast.problems and words in forecast.lines
    assert any("50 % of the examples are longer" in warning for warning in forecast.warnings)


@pytest.mark.parametrize("longest, enabled", [(None, False), (512, True)])
def test_a_fine_tuning_is_foreseen_and_counts_if_it_is_enabled(here, monkeypatch, longest, enabled):
    monkeypatch.setattr(checking, "rehearse_steps", lambda *_: Steps(1, 0.0, (1.0,)))
    (here / "small.txt").write_text("\n".join(f"Call me Ishmael, {i}." for i in range(4000)))
    task = labelled([f"{i},{'text ' * (i + 1) ** 3},{'aab'[i % 3]}" for i in range(9)])
    task["finetune"] |= {"max_length": longest, "enabled": enabled, "also": ["a/b@" + "a" * 40]}
    forecast = check(of_files("small.txt", tokenizer={"vocabulary_size": 300}, **task))
    assert not forecast.problems
    *others, tuned, published, total = forecast.stages
    assert (tuned.name, published.name) == ("finetune [base]", "finetune [a/b@aaaaaaaa]")
    assert total.seconds == (None if enabled else checking.together(others).seconds)
    assert "Fine-tuning: 9 examples of reviews.csv in 2 classes." in forecast.lines
    (warning,) = forecast.warnings
    assert "% of the examples are longer than 64 tokens" in warning


def test_steps_are_timed_once_for_seeds_and_a_prompt_that_is_too_long_is_a_problem(
    here, monkeypatch
):
    timed = []
    monkeypatch.setattr(checking, "rehearse_steps", lambda run, *_: timed.append(run.name))
    (here / "small.txt").write_text("\n".join(f"Call me Ishmael, {i}." for i in range(4000)))
    sweep = {"pretraining.softmax_classes": [100, None], "pretraining.seed": [0, 1]}
    more = {"sweep": sweep, "evaluation": {"prompts": ["Call [MASK] " + "Ishmael " * 40]}}
    problems = check(of_files("small.txt", tokenizer={"vocabulary_size": 300}, **more)).problems
    assert len(timed) == 2 and len(problems) == 4
    assert all("evaluation.prompts" in line and "at most 64" in line for line in problems)


def test_a_fine_tuning_takes_all_folds_and_epochs(monkeypatch):
    monkeypatch.setattr(checking, "usable_cores", lambda: 2)
    run, section = run_in(resolve({})), Finetune(folds=2, epochs=15)
    timed, length = Steps(1, 0.0, (1.0,)), run.sequence_length
    half = checking._products(run, 8000, length // 2, 0)
    # Attention is less than half, and there are no predictions over the vocabulary.
    assert 0.3 < half / checking._products(run, 8000, length, 0.3 * length) < 0.5
    monkeypatch.setattr(checking, "_products", lambda run, vocabulary, length, predicted: length)
    stage = checking.stage_of_finetuning(run, section, (600, length // 2), 8000, timed)
    # Of 600 rows, 300 are learned from and 300 scored, 30 times for each of the two folds.
    # Then all rows are learned from, 15 times. A job takes 15 seconds to begin.
    expected = 2 * 30 * 300 * (1 + 1 / 3) / 2 + 15 * 600 / 2 + 5 * 15 / 2
    assert stage.seconds == pytest.approx(expected)
    section = section.model_copy(update={"learning_rate": [0.001, 0.002]})
    tried = checking.stage_of_finetuning(run, section, (600, length // 2), 8000, timed)
    # 4 times 240 of 300 rows, and once 480 of 600, each with a third of the rest, twice.
    trials = 15 * 2 * (4 * (240 + 60 / 3) + 480 + 120 / 3)
    assert tried.seconds - stage.seconds == pytest.approx(trials / 2, rel=0.01)
    assert checking.stage_of_finetuning(run, section, (600, 64), 8000, None).seconds is None


SIZES = {
    "train": Size(11e6, 20_000, 2.4e6, 37_500),
    "validation": Size(5e5, 1000, 1e5, 1600),
    "test": Size(5e5, 1000, 1e5, 1600),
}


def run_in(settings):
    return trainings(settings)["base"]


def of_run(run, *seconds_per_row):
    steps = Steps(1, 0.0, seconds_per_row) if seconds_per_row else None
    return checking.stages_of_run(run, Evaluation(), 8000, SIZES, steps)


def test_each_phase_takes_the_time_of_its_rows():
    phases = [{"share": 0.5}, {"share": 0.5, "sequence_length": 256}]
    run = run_in(resolve({"pretraining": {"phases": phases, "steps": 1000}}))
    batch = run.pretraining.per_replica_batch_size
    seconds = [of_run(run, 1 / batch, long / batch)[0].seconds for long in (4, 12)]
    # 500 steps of a quarter of the rows, and a third of that for validation.
    assert 1000 < seconds[0] < 1400 and 1000 < seconds[1] - seconds[0] < 1200


def test_a_tpu_that_is_not_here_is_left_to_the_preflight(monkeypatch):
    absent = Mock(side_effect=MlmError("no TPU here"))
    train = SimpleNamespace(in_rows=lambda row_samples: SimpleNamespace(num_samples=100))
    monkeypatch.setattr(checking, "read_manifests", lambda *_: {"train": train})
    monkeypatch.setattr(checking, "open_devices", absent)
    run, warnings = run_in(resolve({"accelerator": {"kind": "tpu"}})), []
    assert checking.rehearse_steps(run, 8000, None, warnings) is None
    assert "snakemake --cores 2 preflight" in warnings[0]


def test_what_is_not_known_is_not_guessed_and_steps_follow_from_the_configuration():
    run = run_in(resolve({"pretraining": {"epochs": 2}}))
    assert own_updates(run, SIZES, 1) == 1172
    assert own_updates(run_in(resolve({})), SIZES, 1) == 1400
    with pytest.raises(MlmError, match="40,000 samples"):
        own_updates(run.with_values(pretraining={"per_replica_batch_size": 40_000}), SIZES, 1)
    long = {"share": 1.0, "sequence_length": 256, "per_replica_batch_size": 9500}
    with pytest.raises(MlmError, match=r"9,500 rows of .* Lower pretraining\.phases\[0\]\.per_"):
        own_updates(run_in(resolve({"pretraining": {"phases": [long]}})), SIZES, 1)
    long["per_replica_batch_size"] = 9000
    filled = {"phases": [long], "per_replica_batch_size": 40_000}
    assert own_updates(run_in(resolve({"pretraining": filled})), SIZES, 1) == 1400
    stages = of_run(run)
    total = checking.together(stages)
    assert [stage.seconds for stage in (*stages, total)] == [None] * 3


@pytest.mark.parametrize("memory_mb, words", [(1, None), (10**8, "100 TB of memory")])
def test_too_little_memory_is_told_before_anything_is_written(memory_mb, words):
    forecast = Forecast(stages=[Stage("pretrain [base]", 1, memory_mb), Stage("in all", 1)])
    judge_memory(forecast)
    assert words in forecast.problems[0] if words else not forecast.problems
