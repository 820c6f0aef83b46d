"""What a training was shown near the texts that its report shows."""

from dataclasses import replace
from pathlib import Path

import pytest
import report_artefacts as made_up
from asked_project import (
    CONFIG,
    LENGTH,
    copied,
    lines,
    new_project,
    the_run,
    write_project,
    write_training,
)

from mlm.asking import seen_near as module
from mlm.asking.answer import ask
from mlm.asking.seen_near import seen_near
from mlm.config.resolution import resolve, run_section
from mlm.evaluation.artefacts import (
    ExtremeSamples,
    FilledToken,
    FillMask,
    PredictedSample,
    PredictedToken,
    Prompt,
)
from mlm.foundations.digests import file_sha256
from mlm.samples.artefacts import HolesOfRun

TEXTS = list(lines(260))
SETTINGS = resolve(CONFIG)
RUN = Path("results/runs/base")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with new_project(tmp_path_factory, "seen") as place:
        write_project(
            {
                "one": TEXTS[:100],
                "two": TEXTS[100:200],
                "validation": TEXTS[200:230],
                "test": TEXTS[230:],
            }
        )
        run, files = the_run(SETTINGS)
        masking = run_section(SETTINGS, "base", "pretraining")["masking"]
        write_training(run, files, masking, global_batch_size=run.batch_size)
        word = TEXTS[5].split()[4]
        answers = [FilledToken(token=f" {word}", sequence=TEXTS[5], score=0.5)]
        FillMask("base", [Prompt(TEXTS[5].replace(word, "[MASK]"), answers)]).write(
            RUN / "fill_mask.json"
        )
        tokens = [PredictedToken("[CLS]", False, None)]
        tokens += [PredictedToken(f" {w}", w in ("the", "zebra"), None) for w in TEXTS[8].split()]
        tokens += [PredictedToken(" zebra", True, None), PredictedToken("[SEP]", False, None)]
        samples = ExtremeSamples([PredictedSample(7, 1.0, 1.0, tokens)], [])
        replace(made_up.evaluation("base"), samples=samples).write(RUN / "evaluation.json")
    return place


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    copied(made, tmp_path, monkeypatch)


FILES = {
    "training": str(RUN / "training.json"),
    "evaluation": str(RUN / "evaluation.json"),
    "fill_mask": str(RUN / "fill_mask.json"),
    "corpus": "results/corpus/train.json",
    "manifest": "results/manifests/train.json",
    "tokenizer": "results/tokenizer/tokenizer.json",
}


def seen(holes=None):
    return seen_near("base", FILES, SETTINGS["corpus"]["filters"], holes)


def test_a_prompt_and_a_sample_are_told_as_they_are_asked(project):
    """The same passages, steps and hidden words as `ask` says of the text by itself."""
    prompt, sample = seen().texts
    assert (prompt.kind, prompt.index, sample.kind, sample.index) == ("prompt", None, "best", 7)
    assert sample.text == f"{TEXTS[8]} zebra"
    uses = hidden = 0
    for told in (prompt, sample):
        answer = ask(told.text, SETTINGS, "base", nearest=1)
        passage, answered = told.passages[0], answer.passages[0]
        assert (passage.text, passage.document) == (answered.text, answered.document)
        assert passage.exact == answer.exact and passage.shared == answered.shared
        used = [use for part in answered.parts for use in part.uses]
        assert passage.uses == len({use.step for use in used})
        assert passage.epochs == len({use.epoch for use in used})
        tokens = [token for part in answered.parts for token in part.tokens]
        for word in passage.words:
            assert word.stands == sum(token.text == word.word for token in tokens) > 0
            assert word.hidden == sum(
                masked.kind != "itself"
                for part in answered.parts
                for use in part.uses
                for masked in use.masked
                for token in part.tokens
                if token.place == masked.place and token.text == word.word
            )
        uses, hidden = uses + passage.uses, hidden + sum(w.hidden for w in passage.words)
    assert prompt.passages[0].exact and not sample.passages[0].exact
    assert sample.asked == ("the", "zebra") and [w.word for w in sample.passages[0].words] == [
        "the"
    ]
    assert uses and hidden


def test_a_large_split_is_not_searched_and_that_is_said(project, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_SEARCHED", 100)
    found = seen()
    assert found.texts == () and found.too_large > 100


def test_what_a_run_forgets_was_never_shown_to_it(project):
    """A hole over the whole of the prompt's samples."""
    answer = ask(TEXTS[5], SETTINGS, "base")
    parts = answer.passages[0].parts
    holes = [(part.sample, 0, LENGTH) for part in parts]
    manifest = file_sha256(FILES["manifest"])
    HolesOfRun("base", [], 1, len(parts) * LENGTH, len(parts), manifest, holes).write("holes.json")
    prompt, sample = seen("holes.json").texts
    assert prompt.passages[0].uses == 0 and not any(w.hidden for w in prompt.passages[0].words)
    assert sample.passages[0].uses
