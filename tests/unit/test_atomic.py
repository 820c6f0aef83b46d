import pytest

from mlm.foundations.atomic import canonical_json, replacing, write_json


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "x.json"
    write_json(target, {"a": 1})
    before = target.read_bytes()
    with pytest.raises(RuntimeError), replacing(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_the_order_of_keys_is_no_difference():
    assert canonical_json({"b": 1, "a": [2]}) == canonical_json({"a": [2], "b": 1})


def test_json_has_no_word_for_nan(tmp_path):
    with pytest.raises(ValueError):
        write_json(tmp_path / "x.json", float("nan"))
    assert not list(tmp_path.iterdir())
