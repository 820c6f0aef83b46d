from dataclasses import replace

import pytest
import report_artefacts as made
from huggingface_hub import ModelCard, metadata_load

from mlm.config.evaluation import Evaluation
from mlm.training.artefacts import PhaseFigures
from mlm.training.model_card import model_card


def read(tmp_path, text):
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    return metadata_load(tmp_path / "README.md"), ModelCard.load(tmp_path / "README.md")


def test_the_batch_length_and_masks_of_each_phase_are_on_the_card():
    phases = [PhaseFigures(9, 128, 0.3, 64), PhaseFigures(10, 512, 0.15, 16)]
    card = model_card(replace(made.training("base"), phases=phases), corpus="embedded")
    assert "| Samples in a step | 64, then 16 |\n| Tokens in a sample | 128, then 512 |" in card
    assert "| Tokens masked | 30%, then 15% |" in card


def test_the_hub_reads_the_header_and_the_figures(tmp_path):
    data, card = read(tmp_path, model_card(made.training("base"), corpus="embedded"))
    assert data["library_name"] == "transformers" and data["pipeline_tag"] == "fill-mask"
    assert data["license"] == "other" and "roberta-prelayernorm" in data["tags"]
    assert "language" not in data
    assert {r.dataset_split for r in card.data.eval_results} == {"validation"}
    test = {"loss": ("Masked loss", 4.9), "accuracy": ("Right", 0.26)}
    papers = {"loss": ("Masked loss", 4.6), "accuracy": ("Right", 0.31)}
    text = model_card(made.training("base"), "files", test, papers, language="en")
    data, card = read(tmp_path, text)
    assert data["language"] == "en"
    found = {(r.dataset_split, r.metric_type): r.metric_value for r in card.data.eval_results}
    assert found["test", "loss"] == 4.9 and found["test", "accuracy"] == 0.26
    assert "| test, answers hidden | 4.900 | 26.0% |" in text
    corpus = 'a "quoted": name\n---\nlicense: mit'
    data, _ = read(tmp_path, model_card(made.training("base"), corpus))
    assert data["license"] == "other"


@pytest.mark.parametrize("deterministic", [None, True, False])
def test_kernels_that_are_not_deterministic_are_said(deterministic):
    text = model_card(
        replace(made.training("base"), arithmetic={"deterministic": deterministic}), "embedded"
    )
    assert ("not the same bits" in text) == (deterministic is False)


def test_the_card_shows_the_sentence_that_it_is_given_or_none(tmp_path):
    prompt = "Das [MASK] ist „gut“."
    data, card = read(tmp_path, model_card(made.training("base"), "files", prompt=prompt))
    assert data["widget"] == [{"text": prompt}]
    assert f"fill({prompt!r}, tokenizer_kwargs" in card.text
    data, card = read(tmp_path, model_card(made.training("base"), "files"))
    assert "widget" not in data and "[MASK]" not in card.text


def test_the_sentence_of_a_card_is_in_the_language_of_the_corpus():
    english = Evaluation()
    assert english.card_prompt(embedded=True) == english.prompts[0]
    assert english.card_prompt(embedded=False) is None
    for embedded in (True, False):
        german = Evaluation(prompts=["Ein [MASK].", *english.prompts])
        assert german.card_prompt(embedded) == "Ein [MASK]."
        assert Evaluation(prompts=[]).card_prompt(embedded) is None
