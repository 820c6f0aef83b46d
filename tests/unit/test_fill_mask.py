import evaluated_project as project
import pytest

from mlm.evaluation.fill_mask import answers
from mlm.foundations.errors import MlmError


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return project.export(project.build_model(), tmp_path_factory.mktemp("model"))


def test_the_answers_are_those_of_the_pipeline_of_transformers(directory):
    from transformers import pipeline

    prompt = "the people of the [MASK] states"
    # Without PyTorch this version of transformers stumbles over its own default "auto".
    reference = pipeline(
        "fill-mask", model=str(directory), framework="tf", top_k=5, torch_dtype=None
    )
    expected = reference(prompt)
    (found,) = answers(directory, [prompt], 5)
    assert found.prompt == prompt
    assert [a.token for a in found.answers] == [e["token_str"] for e in expected]
    assert [a.sequence for a in found.answers] == [e["sequence"] for e in expected]
    assert [a.score for a in found.answers] == pytest.approx(
        [e["score"] for e in expected], rel=1e-4
    )


def test_all_wrong_prompts_are_named_at_once(directory):
    with pytest.raises(MlmError) as raised:
        answers(directory, ["", "the [MASK]", "[MASK] of [MASK]", "the " * 40 + "[MASK]"], 5)
    assert "'' holds the mask token [MASK] 0 times" in str(raised.value)
    assert "'[MASK] of [MASK]' holds the mask token [MASK] 2 times" in str(raised.value)
    assert "43 tokens; the model takes at most 16" in str(raised.value)
    assert "'the [MASK]'" not in str(raised.value)
