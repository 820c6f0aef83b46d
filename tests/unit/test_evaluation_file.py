from mlm.evaluation.artefacts import FilledToken, FillMask, Prompt, rounded
from mlm.foundations.artefacts import read_artefact


def test_what_is_written_has_its_version_and_is_rounded(tmp_path):
    path = tmp_path / "fill_mask.json"
    FillMask("base", [Prompt("A [MASK].", [FilledToken("b", "A b.", 1 / 3)])]).write(path)
    answer = {"token": "b", "sequence": "A b.", "score": 0.3333333}
    prompts = [{"prompt": "A [MASK].", "answers": [answer]}]
    assert read_artefact(path) == {"format_version": 1, "run": "base", "prompts": prompts}


def test_rounding_keeps_seven_digits_and_all_that_is_no_float():
    value = {"a": [1234.56789, 1e-9 / 3], "b": 12345678901, "c": True, "d": None, "e": [0.1]}
    assert rounded(value) == {
        "a": [1234.568, 3.333333e-10],
        "b": 12345678901,
        "c": True,
        "d": None,
        "e": [0.1],
    }


def test_a_loss_of_ten_nats_is_right_to_a_hundred_thousandth():
    assert abs(rounded(10.123456789) - 10.123456789) < 1e-5
