from dataclasses import replace

import pytest
import report_artefacts as made
from huggingface_hub import ModelCard, metadata_load

from mlm.config.evaluation import Evaluation
from mlm.training.model_card import model_card


def read(tmp_path, text):
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    return metadata_load(tmp_path / "README.md"), ModelCard.load(tmp_path / "README.md")


def test_the_hub_reads_the_header_and_the_figures(tmp_path):
    text = model_card(made.training("base"), corpus="embedded")
    data, card = read(tmp_path, text)
    assert data["library_name"] == "transformers" and data["pipeline_tag"] == "fill-mask"
    assert data["license"] == "other" and "roberta-prelayernorm" in data["tags"]
    assert "language" not in data
    assert {r.dataset_split for r in card.data.eval_results} == {"validation"}
    for words in ("1,463,744", "1,600", "State of the Union", "transformers 4.52.4", "0.003"):
        assert words in text
    test = {"loss": ("Masked loss", 4.9), "accuracy": ("Right", 0.26)}
    papers = {"loss": ("Masked loss", 4.6), "accuracy": ("Right", 0.31)}
    text = model_card(made.training("base"), "files", test, ("80/10/10", papers), language="en")
    data, card = read(tmp_path, text)
    assert data["language"] == "en"
    found = {(r.dataset_split, r.metric_type): r.metric_value for r in card.data.eval_results}
    assert found["test", "loss"] == 4.9 and found["test", "accuracy"] == 0.26
    assert "name: Right (test)" in text
    rows = "| test, answers hidden | 4.900 | 26.0% |\n"
    rows += "| test, as papers report it (80/10/10) | 4.600 | 31.0% |"
    assert rows in text and "| validation (80/10/10) | 4.900 |" in text
    corpus = 'a "quoted": name\n---\nlicense: mit'
    data, _ = read(tmp_path, model_card(made.training("base"), corpus))
    assert data["license"] == "other"


@pytest.mark.parametrize(
    "family, said, unsaid",
    [
        ("roberta", "With transformers 4, TensorFlow and tf-keras do as well", "no TensorFlow"),
        ("modernbert", "no TensorFlow class for modernbert", "With transformers 4"),
    ],
)
def test_the_card_says_which_packages_its_example_needs(family, said, unsaid):
    text = model_card(replace(made.training("base"), model_type=family), corpus="embedded")
    assert "pip install torch transformers" in text
    assert said in text and unsaid not in text


@pytest.mark.parametrize(
    "changes, words, said",
    [
        ({"initialisation": {"embeddings": "random"}}, "trained from random weights", True),
        ({"initialisation": {"embeddings": "cooccurrence"}}, "trained from random weights", False),
        ({"deterministic": None}, ", not the same bits in every run |", False),
        ({"deterministic": True}, ", not the same bits in every run |", False),
        ({"deterministic": False}, ", not the same bits in every run |", True),
    ],
)
def test_random_weights_and_kernels_that_are_not_deterministic_are_said(changes, words, said):
    training = made.training("base")
    if "initialisation" in changes:
        changes = {"initialisation": training.initialisation | changes["initialisation"]}
    assert (words in model_card(replace(training, **changes), corpus="embedded")) == said


def test_the_card_shows_the_sentence_that_it_is_given_or_none(tmp_path):
    prompt = "Das [MASK] ist „gut“."
    data, card = read(tmp_path, model_card(made.training("base"), "files", prompt=prompt))
    assert data["widget"] == [{"text": prompt}]
    assert f"fill({prompt!r}, tokenizer_kwargs" in card.text
    data, card = read(tmp_path, model_card(made.training("base"), "files"))
    assert "widget" not in data
    assert "fill.tokenizer.mask_token" in card.text and "[MASK]" not in card.text


def test_the_sentence_of_a_card_is_in_the_language_of_the_corpus():
    english = Evaluation().prompts
    assert Evaluation.card_prompt(english, embedded=True) == english[0]
    assert Evaluation.card_prompt(english, embedded=False) is None
    for embedded in (True, False):
        assert Evaluation.card_prompt(["Ein [MASK].", *english], embedded) == "Ein [MASK]."
        assert Evaluation.card_prompt([], embedded) is None
