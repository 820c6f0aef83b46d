from dataclasses import replace

import pytest
import report_artefacts as made_up
from asked_project import CONFIG, TEXTS, trained

from mlm.asking import seen_near as module
from mlm.asking.answer import ask
from mlm.asking.seen_near import seen_near
from mlm.config.resolution import resolve
from mlm.evaluation.artefacts import (
    ExtremeSamples,
    FilledToken,
    FillMask,
    PredictedSample,
    PredictedToken,
    Prompt,
)

SETTINGS = resolve(CONFIG)
RUN = "results/runs/base"
FILES = {name: f"{RUN}/{name}.json" for name in ("training", "evaluation", "fill_mask")} | {
    "corpus": "results/corpus/train.json",
    "manifest": "results/manifests/train.json",
    "tokenizer": "results/tokenizer/tokenizer.json",
}


@pytest.fixture
def shown(project):
    """A project with a prompt and a sample that its report shows."""
    trained()
    word = TEXTS[5].split()[4]
    answers = [FilledToken(token=f" {word}", sequence=TEXTS[5], score=0.5)]
    prompts = [Prompt(TEXTS[5].replace(word, "[MASK]"), answers)]
    FillMask("base", prompts).write(FILES["fill_mask"])
    words = [*TEXTS[8].split(), "zebra"]
    tokens = [PredictedToken(f" {w}", w in ("the", "zebra"), None) for w in words]
    special = [PredictedToken(text, False, None) for text in ("[CLS]", "[SEP]")]
    tokens = [special[0], *tokens, special[1]]
    samples = ExtremeSamples([PredictedSample(7, 1.0, 1.0, tokens)], [])
    replace(made_up.evaluation("base"), samples=samples).write(FILES["evaluation"])


def seen():
    return seen_near("base", FILES, SETTINGS["corpus"]["filters"])


def test_a_prompt_and_a_sample_are_told_as_they_are_asked(shown):
    """The same passages, steps and hidden words as `ask` says of the text by itself."""
    prompt, sample = seen().texts
    assert (prompt.kind, prompt.index, sample.kind, sample.index) == ("prompt", None, "best", 7)
    assert sample.text == f"{TEXTS[8]} zebra"
    uses = hidden = 0
    for told in (prompt, sample):
        answer = ask(told.text, SETTINGS, "base", nearest=1)
        passage, answered = told.passages[0], answer.passages[0]
        assert (passage.text, passage.document) == (answered.text, answered.document)
        assert (passage.exact, passage.shared) == (answer.exact, answered.shared)
        used = [use for part in answered.parts for use in part.uses]
        assert passage.uses == len({use.step for use in used})
        assert passage.epochs == len({use.epoch for use in used})
        tokens = [(part, token) for part in answered.parts for token in part.tokens]
        for word in passage.words:
            of_word = [(part, token) for part, token in tokens if token.text == word.word]
            assert word.stands == len(of_word) > 0
            assert word.hidden == sum(
                masked.place == token.place and masked.kind != "itself"
                for part, token in of_word
                for use in part.uses
                for masked in use.masked
            )
        uses, hidden = uses + passage.uses, hidden + sum(w.hidden for w in passage.words)
    assert prompt.passages[0].exact and not sample.passages[0].exact
    assert sample.asked == ("the", "zebra")
    assert [word.word for word in sample.passages[0].words] == ["the"]
    assert uses and hidden


def test_a_large_split_is_not_searched_and_that_is_said(shown, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_SEARCHED", 100)
    found = seen()
    assert found.texts == () and found.too_large > 100


def test_the_guess_of_a_word_s_end_is_asked_for_as_the_texts_of_tokens_show_it(shown):
    """Without the `##` with which WordPiece writes it."""
    word = TEXTS[5].split()[4]
    answers = [FilledToken(token=f"##{word}", sequence=TEXTS[5], score=0.5)]
    FillMask("base", [Prompt("[MASK]", answers)]).write(FILES["fill_mask"])
    prompt, _ = seen().texts
    assert prompt.asked == (word,)
