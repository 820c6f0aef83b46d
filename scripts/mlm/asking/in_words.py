"""Answers for people, in lines for the terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence

from mlm.asking.answer import Answer, Passage
from mlm.asking.passages import Masked, Part
from mlm.asking.past_run import TrainingSoFar
from mlm.foundations.errors import on_one_line

_KINDS = {"mask": "hidden", "random": "another in its place", "itself": "left to see"}


def in_words(answer: Answer) -> str:
    """Return `answer` as text that ends without a line feed."""
    lines = [_training(answer.run, answer.training), _occurrences(answer)]
    for number, passage in enumerate(answer.passages, start=1):
        lines += ["", *_passage(number, passage)]
    if answer.notes:
        lines += ["", *answer.notes]
    return "\n".join(lines)


def _training(run: str, training: TrainingSoFar) -> str:
    """Return how far the training of `run` is known to be, in a sentence."""
    size = f"{training.steps:,} steps of {training.samples_per_step:,} samples"
    if training.state == "finished":
        return f"Run {run}: trained to its end, {size}."
    if training.state == "under way":
        return (
            f"Run {run}: has made {training.reached:,} of {size} by its last saved state, "
            f"{training.record}."
        )
    return f"Run {run}: no training of it is known. It would make {size}."


def _occurrences(answer: Answer) -> str:
    if not answer.occurrences:
        return "The sentence does not occur in the corpus. Ask for a shorter part of it."
    times = "once" if answer.occurrences == 1 else f"{answer.occurrences:,} times"
    more = answer.occurrences - len(answer.passages)
    left_out = f"; {more:,} more with --most {answer.occurrences}" if more else ""
    return f"The sentence occurs in the corpus {times}{left_out}."


def _passage(number: int, passage: Passage) -> Iterator[str]:
    source = on_one_line(passage.source)
    yield f"{number}. In document {passage.document:,} of {passage.split} ({source})"
    if passage.split != "train":
        yield f"   Never trained on: the {passage.split} split is held out."
    counts = []
    for part in passage.parts:
        yield from (f"   {line}" for line in _part(part, passage.split))
        masked = [m for use in part.uses if use.reached for m in use.masked]
        for token in part.tokens:
            kinds = Counter(m.kind for m in masked if m.position == token.position)
            if kinds:
                words = ", ".join(f"{kinds[k]:,} {how}" for k, how in _KINDS.items() if kinds[k])
                counts.append(f"{on_one_line(token.text)} ({words})")
    if counts:
        yield f"   Masked so far: {'; '.join(counts)}"


def _part(part: Part, split: str) -> Iterator[str]:
    first, last = part.tokens[0].position, part.tokens[-1].position
    tokens = f"tokens {first} to {last}" if last != first else f"token {first}"
    yield (
        f"Sample {part.sample:,}, which is {part.shard_sample:,} in {part.shard}: {tokens}, "
        f"“{on_one_line(' '.join(t.text for t in part.tokens))}”"
    )
    for use in part.uses:
        far = "" if use.reached else " (not reached)"
        yield f"  step {use.step:,}, epoch {use.epoch}{far}: {_masked(part, use.masked)}"
    if split == "train" and not part.uses:
        yield "  used at no step"


def _masked(part: Part, masked: Sequence[Masked]) -> str:
    texts = {token.position: token.text for token in part.tokens}
    shown = (f"{texts[m.position]} → {'itself' if m.kind == 'itself' else m.shown}" for m in masked)
    return on_one_line(", ".join(shown)) or "none masked"
