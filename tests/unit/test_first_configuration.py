import gzip

import pytest

import start
from mlm.check import first_configuration
from mlm.check.check import Forecast
from mlm.check.first_configuration import labelled_task, look_at, prompts_from, steps_within
from mlm.check.rehearsed_data import Stage
from mlm.config.corpus import Files
from mlm.corpus.source_files import matched_files
from mlm.foundations.errors import MlmError

SENTENCE = "The committee did not agree on the budget of the year. "


def test_the_patterns_match_the_files_of_a_folder_but_not_the_labels(tmp_path, monkeypatch):
    folder = tmp_path / "my [old] texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "one.txt").write_text("First.\n\nSecond.\n\nThird.\n")
    (folder / "deep" / "two.txt.gz").write_bytes(gzip.compress(b"Fourth.\n\nFifth.\n"))
    (folder / "notes.pdf").write_text("no text")
    for name in ("deep/six.csv", "labels.csv"):
        (folder / name).write_text("text,label\nSixth.,a\n")
    files = look_at(folder, folder / "labels.csv")
    assert files.kinds == {"txt": 2, "csv": 1} and files.skipped == {".pdf": 1}
    names = [str(folder / name) for name in ("deep/six.csv", "deep/two.txt.gz", "one.txt")]
    assert matched_files(Files(train=files.patterns))["train"] == names
    assert files.settings == {"files": {"document_per": "paragraph"}, "text_column": "text"}
    assert sorted(files.documents) == ["Fifth.", "First.", "Fourth.", "Second.", "Sixth.", "Third."]
    monkeypatch.setattr(first_configuration, "_NAMED", 0)
    with pytest.raises(MlmError, match=r"labels\.csv"):
        look_at(folder, folder / "labels.csv")


@pytest.mark.parametrize(
    "name, text, column",
    [
        ("a.jsonl", f'{{"id": "1", "body_of_letter": "{SENTENCE}"}}', "body_of_letter"),
        ("a.jsonl", f'{{"text": "Short.", "abstract": "{SENTENCE}"}}', "text"),
        ("a.csv", "\ufeffletter,note\n" + '"A cell\nof two lines",x\n' * 150, "letter"),
        ("a.tsv", 'letter\tnote\n"A quote that is not closed\tx\n', "letter"),
    ],
)
def test_the_text_is_the_longest_column_or_has_a_usual_name(tmp_path, name, text, column):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert look_at(tmp_path).settings == {"text_column": column}


def test_many_files_are_groups(tmp_path):
    for number in range(60):
        (tmp_path / f"{number}.txt").write_text(SENTENCE)
    files = look_at(tmp_path)
    assert files.settings["group_per"] == "file" and files.groups == 60


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("a.pdf", "x", "no file that can be read"),
        ("a.json", '[{"text": "x"}]', "expected an object on each line"),
        ("a.jsonl", '\ufeff{"text": ""}', "no column of text. There are: text"),
    ],
)
def test_a_folder_without_text_is_refused(tmp_path, name, text, words):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(MlmError, match=words):
        look_at(tmp_path)


def test_labels_are_the_column_of_few_values(tmp_path):
    path = tmp_path / "labels.csv"
    lines = (f"{n},{SENTENCE},{'good' if n % 3 else 'bad'}" for n in range(30))
    path.write_text("\n".join(["id,sentence,mood", *lines]))
    task = labelled_task(path)
    assert task["task"] == "classification"
    assert (task["data"]["text_column"], task["data"]["target_column"]) == ("sentence", "mood")
    path.write_text("\n".join(["text,year", *(f"{SENTENCE},{1900.5 + n}" for n in range(30))]))
    assert labelled_task(path)["task"] == "regression"
    path.write_text("\n".join(["text,other", *(f"{SENTENCE},name-{n}" for n in range(30))]))
    with pytest.raises(MlmError, match="none of the columns"):
        labelled_task(path)


def test_prompts_are_sentences_of_the_text_with_one_mask():
    prompts = prompts_from([SENTENCE * 2] * 9, 256)
    assert prompts == ["The [MASK] did not agree on the budget of the year."] * 3
    wrapped = "The command learned\n   to use version 2.0 of it. More."
    assert prompts_from([wrapped] * 3, 30) == ["The command [MASK] to use"] * 3
    assert prompts_from([wrapped] * 3, 64) == ["The command learned to use [MASK] 2.0 of it."] * 3
    assert (
        prompts_from(["library to read the files"] * 3, 64) == ["library to [MASK] the files"] * 3
    )
    chinese = "在这个世界上没有比这更重要的事情了所以我们必须努力"
    (prompt,) = prompts_from([chinese], 64)
    assert prompt == "在这个世界上没有比这更重要的事情了所以我[MASK]须努"


def test_steps_fit_into_the_minutes_beside_the_other_stages():
    stages = [Stage("corpus", 30.0), Stage("pretrain [base]", 200.0), Stage("in all", 240.0)]
    # 540 of 600 seconds, less 40, at 0.1 s a step of the 2,000 that were forecast.
    assert steps_within(10, Forecast(stages=stages, train_samples=16_000), batch=16) == (5000, 540)
    assert steps_within(10, Forecast(stages=stages, train_samples=160), batch=16) == (300, 70)
    with pytest.raises(MlmError, match="Expected at least"):
        steps_within(0.9, Forecast(stages=stages), batch=16)


@pytest.mark.parametrize(
    "option", ["project=mine", "project=texts/new", "minutes=nan", "minutes=inf", "minutes=0"]
)
def test_what_cannot_be_done_is_refused_at_once(here, capsys, option):
    for folder in ("mine", "texts"):
        (here / folder).mkdir()
        (here / folder / "file.txt").write_text("x")
    with pytest.raises((MlmError, SystemExit)) as caught:
        start.main(["texts", f"--{option}"])
    assert option.partition("=")[2] in f"{caught.value}{capsys.readouterr().err}"
