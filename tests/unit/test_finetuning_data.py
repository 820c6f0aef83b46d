import gzip
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mlm.config.finetune import Finetune, FinetuneData
from mlm.finetuning.artefacts import Example, read_examples
from mlm.finetuning.example_sources import labelled_examples, write_data, year_examples
from mlm.finetuning.fold_assignment import assign_folds, validation_part
from mlm.finetuning.score_comparison import NAMES, scores_of
from mlm.foundations.errors import MlmError


def read(tmp_path, content, task="regression", **columns):
    file = tmp_path / "train.csv"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return labelled_examples(FinetuneData(source="csv", file=str(file), **columns), task)


def test_rows_are_numbered_and_columns_that_are_not_read_may_share_a_name(tmp_path):
    quoted = 'url,license,text,label\na1,,"Two lines\nof text, quoted.",-0.34\n'
    assert read(tmp_path, quoted) == [Example("1", "Two lines\nof text, quoted.", "-0.34")]
    unnamed = read(tmp_path, "id,text,label,,\na,b,1,,\nc,d,2,,\n", group_column="id")
    assert unnamed == [Example("1", "b", "1", "a"), Example("2", "d", "2", "c")]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("id,body,label\na,b,1\n", ["finetune.data.text_column", "'text'", "'body'"]),
        ("label,text,label\n1,b,2\n", ["finetune.data.target_column", "'label'"]),
        ("id,text,label\n", ["no row"]),
        ("id,text,label\na,b,-1e20\nb,,2\n", ["row 1 (line 2)", "row 2 (line 3)", "'text'"]),
        ("id,text,label\na,b,easy\na,b,1_000\n", ["'easy'", "'1_000'"]),
        ('id,text,label\n\na,"b\n\nb",1\nc,Hello, world,1\n', ["row 2 (line 6)", "4 cells"]),
        ('id,text,label\na,b,1\nb,"open,2\nc,d,3\n', ["line 3", "quote"]),
        ("id;text;label\na;b;1\n", ["commas"]),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", ["git lfs pull"]),
        (gzip.compress(b"id,text,label\na,b,1\n", mtime=0), ["gzip", "decompress"]),
        (None, ["finetune.data.file", "train.csv"]),
        ("id,text,label\na,caf\xe9,1\n".encode("latin-1"), ["byte 19"]),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path, text, named):
    with pytest.raises(MlmError) as error:
        read(tmp_path, text)
    assert [words for words in named if words not in str(error.value)] == []


def test_equal_texts_lie_in_one_fold():
    examples = [Example(f"r{i}", f"text {i % 10}", str(i % 3)) for i in range(40)]
    dealt = assign_folds(examples, "regression", 5, 0)
    assert len({(e.excerpt, fold) for e, fold in zip(examples, dealt, strict=True)}) == 10


def numbered(count, group=lambda i: ""):
    return [
        Example(f"r{i}", f"text {i}", str((i * 7 % count) / 10), group(i)) for i in range(count)
    ]


@given(
    sizes=st.lists(st.integers(1, 30), min_size=5, max_size=40),
    folds=st.integers(2, 5),
    seed=st.integers(0, 2**32),
)
@hypothesis_settings(max_examples=50, deadline=None)
def test_groups_of_any_size_lie_in_one_fold_each(sizes, folds, seed):
    sizes = [sum(sizes) + 1, *sizes]
    examples = [
        Example(f"r{g}-{i}", "t", str(i % 2), f"g{g}")
        for g, n in enumerate(sizes)
        for i in range(n)
    ]
    dealt = assign_folds(examples, "regression", folds, seed)
    pairs = {(e.group, fold) for e, fold in zip(examples, dealt, strict=True)}
    assert len(pairs) == len(sizes)
    of_fold = Counter(fold for _, fold in pairs)
    assert set(of_fold) == set(range(folds)) and max(of_fold.values()) - min(of_fold.values()) <= 1


def test_folds_are_alike_and_depend_on_the_seed_but_not_on_the_order_of_the_rows():
    examples = numbered(203)
    folds = assign_folds(examples, "regression", 5, seed=0)
    assert set(Counter(folds).values()) <= {40, 41}
    targets, dealt = np.array([float(e.target) for e in examples]), np.array(folds)
    means = [targets[dealt == fold].mean() for fold in range(5)]
    assert max(means) - min(means) < 1.0  # of a range of 20, with a standard error of 0.9
    assert assign_folds(examples[::-1], "regression", 5, 0) == folds[::-1]
    assert assign_folds(examples, "regression", 5, 1) != folds


def test_the_validation_part_is_a_fifth_of_whole_groups_with_every_class():
    examples = [Example(f"r{i}", f"t{i}", "ab"[i % 2], f"g{i // 4}") for i in range(200)]
    part = validation_part(examples, "classification")
    groups = {(e.group, bool(held)) for e, held in zip(examples, part, strict=True)}
    assert len(groups) == 50 and sum(held for _, held in groups) == 10
    assert {e.target for e, held in zip(examples, part, strict=True) if held} == {"a", "b"}


@pytest.mark.parametrize(
    ("examples", "folds", "task", "named"),
    [
        (numbered(4), 5, "regression", "finetune.folds: 4"),
        (numbered(3), 2, "regression", "finetune.folds: 3"),
        (numbered(40, group=lambda i: f"g{i % 2}"), 5, "regression", "finetune.folds"),
        (
            [Example(f"r{i}", f"t{i}", {0: "rare", 1: "odd"}.get(i, "x")) for i in range(9)],
            *(5, "classification"),
            r"(?s)'odd': fold \d \(r1\).*'rare': fold \d \(r0\)",
        ),
        ([Example(f"r{i}", f"t{i}", "x") for i in range(9)], 5, "classification", "finetune.task"),
    ],
)
def test_what_cannot_be_folded_is_said(examples, folds, task, named):
    with pytest.raises(MlmError, match=named):
        assign_folds(examples, task, folds, 0)


def test_the_year_task_takes_whole_addresses():
    examples = year_examples(FinetuneData(passages_per_speech=2), 0)
    assert len({e.group for e in examples}) == 231
    assert len({e.excerpt for e in examples}) == len(examples)
    assert all(round(1900 + 50 * float(e.target)) == int(e.group[:4]) for e in examples)


def intervals_of(examples):
    """The intervals of scores_of by model: every model is wrong by what its group is wrong by."""
    wrong = {e.group: place for place, e in enumerate({e.group: e for e in examples}.values())}
    predictions = {
        name: {e.id: str(float(e.target) + wrong[e.group] * (i + 1)) for e in examples}
        for i, name in enumerate(NAMES)
    }
    found = scores_of(examples, predictions, Finetune(folds=5))
    return {name: model.interval for name, model in found["models"].items()}


def test_a_published_encoder_is_compared_with_the_pretrained_model():
    examples = [Example(f"r{i}", f"t{i}", "0", fold=i % 2) for i in range(40)]
    wrong = {name: str(i) for i, name in enumerate((*NAMES, "minilm"), 1)}
    predictions = {name: {e.id: by for e in examples} for name, by in wrong.items()}
    found = scores_of(examples, predictions, Finetune(folds=2))
    assert [*found["models"]] == [*NAMES, "minilm"]
    *_, last = found["differences"]
    assert (last.model, last.beside, last.score) == ("pretrained", "minilm", 1 - 4)
    assert "is better than the published encoder minilm" in found["verdicts"][-1].text


def test_directories_that_hold_no_fitting_encoder_are_all_named_before_the_first_job(tmp_path):
    files = {"config.json": '{"model_type": "bert"}', "tokenizer.json": "", "model.safetensors": ""}
    faults = {
        "good": {},
        "untokenised": {"tokenizer.json": None},
        "gpt2": {"config.json": '{"model_type": "gpt2"}'},
        "damaged": {"config.json": "["},
        "a name": {},
    }
    for name, changes in faults.items():
        (tmp_path / name).mkdir()
        for file, text in (files | changes).items():
            (tmp_path / name / file).write_text(text) if text is not None else None
    also = [str(tmp_path / name) for name in faults]
    problems = [*Finetune(also=also).contradictions()]
    for i, (line, place) in enumerate(zip(problems, also[1:], strict=True), 1):
        assert line.startswith(f"also[{i}]: {place}")


def test_what_folds_keep_together_the_intervals_resample_together(tmp_path):
    """Passages that say the same as the first of their group add nothing to what is known."""
    data = FinetuneData(source="embedded", passages_per_speech=3)
    write_data(Finetune(folds=5, data=data), 0, tmp_path / "t.csv", tmp_path / "t.json")
    examples = read_examples(tmp_path / "t.csv")
    sizes = Counter(e.group for e in examples)
    assert len({(e.group, e.fold) for e in examples}) == len(sizes)
    examples = [e for e in examples if sizes[e.group] == 3]
    alone = list({e.group: e for e in reversed(examples)}.values())[::-1]
    expected = {name: pytest.approx(ends) for name, ends in intervals_of(alone).items()}
    assert intervals_of(examples) == expected
