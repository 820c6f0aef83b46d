"""Answers for people, in lines for the terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence

from mlm.asking.answer import Answer, Passage
from mlm.asking.passages import Masked, Part
from mlm.asking.past_run import TrainingSoFar
from mlm.foundations.errors import on_one_line

_KINDS = {"mask": "hidden", "random": "another in its place", "itself": "left to see"}


def in_words(answer: Answer) -> str:
    """`answer` as text that ends without a line feed."""
    lines = [_training(answer.run, answer.training), _found(answer)]
    for number, passage in enumerate(answer.passages, start=1):
        lines += ["", *_passage(number, passage, answer)]
    if answer.notes:
        lines += ["", *answer.notes]
    return "\n".join(lines)


def _training(run: str, training: TrainingSoFar) -> str:
    """How far the training of `run` is known to be, in a sentence."""
    size = f"{training.steps:,} steps of {training.samples_per_step:,} samples"
    if training.state == "finished":
        return f"Run {run}: trained to its end, {size}."
    if training.state == "under way":
        return (
            f"Run {run}: has made {training.reached:,} of {size} by its last saved state, "
            f"{training.record}."
        )
    return f"Run {run}: no training of it is known. It would make {size}."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _found(answer: Answer) -> str:
    if answer.exact:
        more = answer.found - len(answer.passages)
        left_out = f"; {more:,} more with --most {answer.found}" if more else ""
        return f"The sentence occurs in the corpus {_times(answer.found)}{left_out}."
    if not answer.passages:
        return "The sentence does not occur in the corpus, and no passage is near it."
    return "The sentence does not occur in the corpus. The nearest passages:"


def _passage(number: int, passage: Passage, answer: Answer) -> Iterator[str]:
    source = on_one_line(passage.source)
    yield f"{number}. In document {passage.document:,} of {passage.split} ({source})"
    if not answer.exact:
        yield f"   “{on_one_line(passage.text)}”: {passage.shared} of {answer.words} words"
    if passage.split != "train":
        yield f"   Never trained on: the {passage.split} split is held out."
    counts = []
    for part in passage.parts:
        yield from (f"   {line}" for line in _part(part, passage.split))
        masked = [m for use in part.uses if use.reached for m in use.masked]
        for token in part.tokens:
            if of_token := [m for m in masked if m.place == token.place]:
                counts.append(f"{on_one_line(token.text)} ({_kinds(of_token)})")
    if counts:
        yield f"   Masked so far: {'; '.join(counts)}"
    # A note of the answer says what the initial weights depend on.
    if passage.split == "train" and passage.first_step != 0:
        yield f"   {_state_before(passage, answer.training)}"


def _state_before(passage: Passage, training: TrainingSoFar) -> str:
    """From which saved state a training without the passage's document would have to continue."""
    first, state, document = passage.first_step, passage.state_before, f"{passage.document:,}"
    if first is None:
        return f"No step uses document {document}."
    far = "" if first <= training.reached else " (not reached)"
    used = f"Document {document} is first used in step {first:,}{far}."
    if state is not None:
        start = f"{{run: {state.run}, step: {state.step}}}"
        return f"{used} The last saved state before it: pretraining.continue_from: {start}"
    if first == 1:
        return f"{used} Only a training from its beginning is without it."
    keep = f"pretraining.checkpoint.keep_steps: [{first - 1}] keeps one"
    return f"{used} No saved state is left from before it; {keep}."


def _part(part: Part, split: str) -> Iterator[str]:
    first, last = part.tokens[0], part.tokens[-1]
    places = f"tokens {first.place} to {last.place}" if last != first else f"token {first.place}"
    yield (
        f"Sample {part.sample:,}, which is {part.shard_sample:,} in {part.shard}: {places}, "
        f"“{on_one_line(' '.join(t.text for t in part.tokens))}”"
    )
    for use in part.uses:
        far = "" if use.reached else " (not reached)"
        yield f"  step {use.step:,}, epoch {use.epoch}{far}: {_masked(part, use.masked)}"
    if split == "train" and not part.uses:
        yield "  used at no step"


def _masked(part: Part, masked: Sequence[Masked]) -> str:
    texts = {token.place: token.text for token in part.tokens}
    shown = (f"{texts[m.place]} → {'itself' if m.kind == 'itself' else m.shown}" for m in masked)
    return on_one_line(", ".join(shown)) or "none masked"


def _kinds(masked: Sequence[Masked]) -> str:
    counts = Counter(m.kind for m in masked)
    return ", ".join(f"{counts[kind]:,} {how}" for kind, how in _KINDS.items() if counts[kind])
