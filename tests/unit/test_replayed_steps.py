from dataclasses import replace

import pytest
from tests.conftest import refusal

from mlm.asking.answer import Answer, Passage
from mlm.asking.in_words import replay_in_words
from mlm.asking.passages import Masked, Part, Token, Use
from mlm.asking.past_run import TrainingSoFar
from mlm.asking.replay import Guess, Replay, ReplayedToken, ReplayedUse, chosen_uses

TOKEN, MASKED = Token(3, 17, "Ocean"), Masked(3, "mask", 4, "[MASK]")


def answer(*steps: tuple[int, bool, bool]) -> Answer:
    """One passage, used at `steps`: each with whether it was reached, and asked for the token."""
    uses = tuple(Use(s, 1, reached, (MASKED,) if asked else ()) for s, reached, asked in steps)
    part = Part(5, "train-00000-of-00001.tfrecord", 5, (TOKEN,), uses)
    return Answer(
        run="base",
        question="Ocean",
        exact=True,
        words=1,
        found=1,
        passages=(Passage("train", 0, "a.txt", "Ocean", 1, (part,)),),
        training=TrainingSoFar("under way", 100, 200, 8, 50, "state/base/abc/step-00000100"),
        notes=(),
    )


USED = answer((7, True, False), (19, True, True), (60, True, True), (140, False, True))
MANY = answer(*((s, True, True) for s in range(2, 100, 2)))
HIDDEN = replace(USED, found=1245)
MADE = "--replay: run base has made 100 of its 200 steps, and"


def steps(of: Answer, step: int | None = None) -> list[int]:
    return [use.step for _, _, use in chosen_uses(of, step)]


def test_without_a_number_it_is_the_first_step_that_asked_for_a_token():
    assert steps(USED) == [19]
    assert steps(answer((7, True, False), (9, True, False), (140, False, True))) == [7]
    assert steps(USED, 7) == [7]
    twice = replace(USED, passages=USED.passages * 2)
    assert [(passage, use.step) for passage, _, use in chosen_uses(twice)] == [(0, 19), (1, 19)]


@pytest.mark.parametrize(
    "of, step, words",
    [
        (USED, 20, f"{MADE} not step 20 used the passage; 7, 19, 60 did"),
        (USED, 140, f"{MADE} not step 140 used the passage; 7, 19, 60 did"),
        (answer((140, False, True)), None, f"{MADE} none of them used the passage"),
        (answer(), None, f"{MADE} none of them used the passage"),
        (MANY, 3, "36, 38, 40, 29 more did"),
        (HIDDEN, 3, "--most 1245 examines all"),
    ],
)
def test_a_step_that_cannot_be_made_again_is_refused_with_the_reason(of, step, words):
    assert words in refusal(chosen_uses, of, step)


def test_a_replay_is_told_in_words():
    guesses = (Guess(9, "sea", 0.25), Guess(17, "Ocean", 0.1))
    replayed = Replay(
        step=19,
        loss=5.25,
        samples=8,
        begun_at=16,
        state="state/base/abc/step-00000016",
        uses=(
            ReplayedUse(0, 5, (ReplayedToken(TOKEN, MASKED, 7.125, guesses),)),
            ReplayedUse(0, 6, ()),
        ),
    )
    assert replay_in_words(replayed, HIDDEN).splitlines() == [
        "Step 19 made again, 3 steps from state/base/abc/step-00000016: its loss was "
        "5.250000, the mean over its 8 samples.",
        "Only 1 of the 1,245 passages were examined: --most 1245 examines all.",
        "Sample 5, as it was shown to step 19, and the answers before it:",
        "  Ocean → [MASK]: loss 7.125; “sea” 25.0 %, “Ocean” 10.0 %",
        "Sample 6: none of its tokens was asked for.",
    ]
