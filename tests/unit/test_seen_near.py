import pytest
from asked_project import CONFIG, TEXTS, trained

from mlm.asking import seen_near as module
from mlm.asking.answer import ask
from mlm.asking.seen_near import seen_near
from mlm.config.resolution import resolve
from mlm.evaluation.artefacts import FilledToken, FillMask, Prompt

SETTINGS = resolve(CONFIG)
RUN = "results/runs/base"
FILES = {name: f"{RUN}/{name}.json" for name in ("training", "fill_mask")} | {
    "corpus": "results/corpus/train.json",
    "manifest": "results/manifests/train.json",
    "tokenizer": "results/tokenizer/tokenizer.json",
}


@pytest.fixture
def shown(project):
    """A project with two prompts that its report shows, the second not a text of train."""
    trained()
    word = TEXTS[5].split()[4]
    filled = [(TEXTS[5], word), (f"{TEXTS[8]} zebra", "the")]
    prompts = [
        Prompt(text.replace(token, "[MASK]"), [FilledToken(f" {token}", text, 0.5)])
        for text, token in filled
    ]
    FillMask("base", prompts).write(FILES["fill_mask"])


def seen():
    return seen_near("base", FILES, SETTINGS["corpus"]["filters"])


def test_prompts_are_told_as_they_are_asked(shown):
    """The same passages, steps and hidden words as `ask` says of the text by itself."""
    exact, near = seen().texts
    uses = hidden = 0
    for told in (exact, near):
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
    assert exact.passages[0].exact and not near.passages[0].exact
    assert near.asked == ("the",) and uses and hidden


def test_a_large_split_is_not_searched_and_that_is_said(shown, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_SEARCHED", 100)
    found = seen()
    assert found.texts == () and found.too_large > 100


def test_the_guess_of_a_word_s_end_is_asked_for_as_the_texts_of_tokens_show_it(shown):
    """Without the `##` with which WordPiece writes it."""
    word = TEXTS[5].split()[4]
    answers = [FilledToken(token=f"##{word}", sequence=TEXTS[5], score=0.5)]
    FillMask("base", [Prompt("[MASK]", answers)]).write(FILES["fill_mask"])
    (prompt,) = seen().texts
    assert prompt.asked == (word,)
