import pytest
import report_artefacts as made

from mlm.evaluation.artefacts import EvaluationFigures
from mlm.foundations.artefacts import write_artefact
from mlm.foundations.errors import MlmError, remedy
from mlm.foundations.typed_artefacts import as_json
from mlm.report.report_inputs import read_curves


@pytest.mark.parametrize("content, found", [({"format_version": 1}, "1"), ({}, "none")])
def test_another_format_version_or_none_is_refused_by_name(tmp_path, content, found):
    path = tmp_path / "evaluation.json"
    write_artefact(path, {"run": "base"} | content)
    with pytest.raises(MlmError, match=rf"evaluation\.json: format version 4 .* found {found}"):
        EvaluationFigures.read(path)


def test_a_missing_field_and_an_unknown_one_are_named_with_the_way_out(tmp_path):
    content = as_json(made.evaluation("base")) | {"baseline": {}}
    del content["test"]["loss"], content["baselines"]
    content["train"]["num_group"] = 12
    path = tmp_path / "a.json"
    write_artefact(path, content)
    with pytest.raises(MlmError) as caught:
        EvaluationFigures.read(path)
    assert str(caught.value) == (
        f"{path}: the field test.loss is missing; the field train.num_group is not known; the "
        f"field baselines is missing; the field baseline is not known. {remedy(path)}"
    )


def test_curves_have_none_where_nothing_was_measured(tmp_path):
    made.write_csv(tmp_path / "training.csv", made.curves())
    rows = read_curves(tmp_path / "training.csv")
    assert [r["step"] for r in rows if r["validation_loss"] is not None] == [400, 800, 1200, 1600]
    assert "tokens_per_second" not in rows[0]
