from mlm.evaluation.rounded_json import rounded, write_figures
from mlm.results.artefacts import read_artefact


def test_what_is_written_has_its_version_and_is_rounded(tmp_path):
    path = tmp_path / "evaluation.json"
    write_figures(path, {"run": "base", "test": {"loss": 1 / 3}})
    assert read_artefact(path) == {"format_version": 1, "run": "base", "test": {"loss": 0.3333333}}


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
