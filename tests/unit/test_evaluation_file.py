import json

import pytest

from mlm.errors import MlmError
from mlm.evaluation.file import read_evaluation, read_fill_mask, rounded, write_figures

CONTENT = {"run": "base", "test": {"loss": 1 / 3}, "baselines": {}, "verdicts": []}


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "evaluation.json"
    write_figures(path, CONTENT)
    found = read_evaluation(path)
    assert found["run"] == "base"
    assert found["test"]["loss"] == 0.3333333


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format_version_is_refused_by_name(tmp_path, version):
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({**CONTENT, "format_version": version}))
    with pytest.raises(MlmError, match=r"evaluation\.json: format_version is .*; 1 is expected"):
        read_evaluation(path)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"format_version": 1, "run": "base"}'])
def test_a_damaged_file_is_a_clear_error(tmp_path, text):
    path = tmp_path / "evaluation.json"
    path.write_text(text)
    with pytest.raises(MlmError, match="Delete it and run again"):
        read_evaluation(path)


def test_a_missing_file_is_a_clear_error(tmp_path):
    with pytest.raises(MlmError, match="is missing"):
        read_fill_mask(tmp_path / "fill_mask.json")


def test_rounding_keeps_seven_digits_and_all_that_is_no_float():
    value = {"a": [1234.56789, 1e-9 / 3], "b": 12345678901, "c": True, "d": None, "e": (0.1,)}
    assert rounded(value) == {
        "a": [1234.568, 3.333333e-10],
        "b": 12345678901,
        "c": True,
        "d": None,
        "e": [0.1],
    }


def test_a_loss_of_ten_nats_is_right_to_a_hundred_thousandth():
    assert abs(rounded(10.123456789) - 10.123456789) < 1e-5
