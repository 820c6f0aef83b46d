import gzip
import json

import pytest

import start
from mlm.check.check import Forecast
from mlm.check.first_configuration import labelled_task, look_at, prompts_from, steps_within
from mlm.check.rehearsed_data import Stage
from mlm.foundations.errors import MlmError

SENTENCE = "The committee did not agree on the budget of the year. "


def test_the_files_of_a_folder_are_told_by_their_names(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "one.txt").write_text("First.\n\nSecond.\n\nThird.\n")
    (tmp_path / "deep" / "two.txt.gz").write_bytes(gzip.compress(b"Fourth.\n\nFifth.\n"))
    (tmp_path / "notes.pdf").write_text("no text")
    (tmp_path / "labels.csv").write_text("text,label")
    files = look_at(tmp_path, tmp_path / "labels.csv")
    assert files.kinds == {"txt": 2} and files.skipped == {".pdf": 1}
    assert files.patterns == [f"{tmp_path}/**/*.txt", f"{tmp_path}/**/*.txt.gz"]
    assert files.settings == {"files": {"document_per": "paragraph"}}
    assert sorted(files.documents) == ["Fifth.", "First.", "Fourth.", "Second.", "Third."]


def test_the_column_of_the_text_is_the_longest_unless_it_has_a_usual_name(tmp_path):
    rows = [{"id": str(n), "body_of_letter": SENTENCE * 3, "note": "x"} for n in range(30)]
    (tmp_path / "letters.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert look_at(tmp_path).settings == {"text_column": "body_of_letter"}
    rows = [{"text": "Short.", "abstract": SENTENCE * 3} for _ in range(30)]
    (tmp_path / "letters.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert look_at(tmp_path).settings == {"text_column": "text"}


def test_many_files_are_groups(tmp_path):
    for number in range(60):
        (tmp_path / f"{number}.txt").write_text(SENTENCE)
    files = look_at(tmp_path)
    assert files.settings["group_per"] == "file" and files.groups == 60


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("a.pdf", "x", "no file that can be read"),
        (None, "", "no file that can be read"),
        ("a.json", '[{"text": "x"}]', "expected an object on each line"),
        ("a.jsonl", '\ufeff{"text": ""}', "no column of text. There are: text"),
    ],
)
def test_a_folder_without_text_is_refused(tmp_path, name, text, words):
    if name:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(MlmError, match=words):
        look_at(tmp_path)


def test_labels_are_the_column_of_few_values(tmp_path):
    path = tmp_path / "labels.csv"
    lines = [
        "id,sentence,mood",
        *(f"{n},{SENTENCE},{'good' if n % 3 else 'bad'}" for n in range(30)),
    ]
    path.write_text("\n".join(lines))
    task = labelled_task(path)
    assert task["task"] == "classification"
    assert (task["data"]["text_column"], task["data"]["target_column"]) == ("sentence", "mood")
    path.write_text("\n".join(["text,year", *(f"{SENTENCE},{1900.5 + n}" for n in range(30))]))
    assert labelled_task(path)["task"] == "regression"
    path.write_text("\n".join(["text,other", *(f"{SENTENCE},name-{n}" for n in range(30))]))
    with pytest.raises(MlmError, match="none of the columns"):
        labelled_task(path)


def test_prompts_are_sentences_of_the_text_with_one_mask():
    prompts = prompts_from([SENTENCE * 2] * 9)
    assert prompts == ["The [MASK] did not agree on the budget of the year."] * 3
    wrapped = "The command learned\n   to use version 2.0 of it. More."
    assert prompts_from([wrapped] * 3) == ["The command learned to use [MASK] 2.0 of it."] * 3
    assert prompts_from(["library to read the files"] * 3) == ["library to [MASK] the files"] * 3
    chinese = "在这个世界上没有比这更重要的事情了所以我们必须努力"
    (prompt,) = prompts_from([chinese])
    assert prompt == "在这个世界上没有比这更重要的事情了所以我[MASK]须努"


def test_steps_fit_into_the_minutes_beside_the_other_stages():
    stages = [Stage("corpus", 30.0), Stage("pretrain [base]", 200.0), Stage("in all", 240.0)]
    # 540 of 600 seconds, less 40, at 0.1 s a step of the 2,000 that were forecast.
    assert steps_within(10, Forecast(stages=stages, train_samples=16_000), batch=16) == (5000, 540)
    assert steps_within(10, Forecast(stages=stages, train_samples=160), batch=16) == (300, 70)
    with pytest.raises(MlmError, match="Expected at least"):
        steps_within(0.9, Forecast(stages=stages), batch=16)


def test_nothing_that_exists_is_changed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    with pytest.raises(MlmError, match="not empty"):
        start.main([str(tmp_path), "--project", str(tmp_path / "mine")])
